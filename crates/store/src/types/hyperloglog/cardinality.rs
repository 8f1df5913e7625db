//! The estimate of the number of different elements that a HyperLogLog has counted, from how often each register value
//! occurs.
//!
//! The estimator is the one without tables and thresholds of Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (arXiv:1702.01284), algorithm 6, which Redis uses too: the same floating-point operations in the
//! same order, so the same number results. Pure functions, usable from any thread.

/// Registers of a HyperLogLog.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

/// The bits of a hash that choose the register.
pub(crate) const INDEX_BITS: u32 = 14;

/// The bits of a hash that are left for the register's value.
pub(crate) const VALUE_BITS: u32 = 64 - INDEX_BITS;

/// Half the inverse of the natural logarithm of 2.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The number of registers with each value.
pub(crate) type Histogram = [u32; 64];

/// Returns the estimate for a histogram.
pub(crate) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let highest = f64::from(histogram[VALUE_BITS as usize + 1]);
    let mut sum = registers * tau((registers - highest) / registers);
    for value in (1..=VALUE_BITS as usize).rev() {
        sum += f64::from(histogram[value]);
        sum *= 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    (ALPHA * registers * registers / sum).round() as u64
}

/// Returns the contribution of the empty registers to the estimate.
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if before == sum {
            return sum;
        }
    }
}

/// Returns the contribution of the registers with the highest value to the estimate.
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * weight;
        if before == sum {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_scale_have_estimates() {
        let mut histogram = [0; 64];
        histogram[0] = REGISTERS as u32;
        assert_eq!(estimate(&histogram), 0);
        (histogram[0], histogram[1]) = (REGISTERS as u32 - 1, 1);
        assert_eq!(estimate(&histogram), 1);
        (histogram[0], histogram[1], histogram[51]) = (0, 0, REGISTERS as u32);
        assert!(estimate(&histogram) > 1 << 60);
    }
}
