//! The number of bits of a string that are set.
//!
//! One loop, compiled for different processors: those with AVX-512's VPOPCNTDQ count eight words by one instruction, those
//! with AVX2 look up half bytes, and elsewhere it is arithmetic. Pure; any thread.

/// Returns how many bits are set.
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512vpopcntdq") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the check above has found the processor features that the function needs; the first includes AVX-512F.
            return unsafe { by_wide_instruction(bytes) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            // SAFETY: the check above has found the processor features that the function needs.
            return unsafe { by_look_up(bytes) };
        }
    }
    count(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn by_wide_instruction(bytes: &[u8]) -> u64 {
    count(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn by_look_up(bytes: &[u8]) -> u64 {
    count(bytes)
}

// Inlined, so that it is compiled for the features of its caller.
#[inline(always)]
fn count(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    of_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_count_the_same() {
        let bytes: Vec<u8> = (0..5_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (from, to) in (0..9).flat_map(|from| [0, 1, 7, 63, 64, 65, 130, 4_999].map(|length| (from, from + length)))
        {
            let part = &bytes[from..to.min(bytes.len())];
            let wanted: u64 = part.iter().map(|byte| (0..8).filter(|bit| byte >> bit & 1 == 1).count() as u64).sum();
            assert_eq!(count_ones(part), wanted, "{from}..{to}");
            assert_eq!(count(part), wanted, "{from}..{to}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                // SAFETY: the processor has been asked for the features that the function needs.
                assert_eq!(unsafe { by_look_up(part) }, wanted, "{from}..{to}");
            }
        }
    }
}
