//! The order in which the servers take their turns: a Latin square that is balanced for the effects that one turn leaves
//! behind for the next.
//!
//! A server that has just been measured may go on for a while: it writes its AOF, looks for requests, gives memory back. The
//! server that always came next would pay for it. In a square of E. J. Williams (1949, "Experimental designs balanced for the
//! estimation of residual effects of treatments") each server has each place once, and follows each other server once.

/// Returns the servers of a round, by their numbers, in the order of their turns.
///
/// With an even number of servers, each server follows every other server once in as many rounds as there are servers; with
/// an odd number, twice in twice as many rounds.
pub fn turns(round: usize, servers: usize) -> Vec<usize> {
    // 0, 1, last, 2, last but one …: each difference between neighbours occurs once.
    let zigzag = |place: usize| if place % 2 == 1 { place.div_ceil(2) } else { servers - place / 2 };
    let mut turns: Vec<usize> = (0..servers).map(|place| (zigzag(place) + round) % servers).collect();
    if servers % 2 == 1 && round / servers % 2 == 1 {
        turns.reverse();
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn each_server_has_each_place_and_follows_each_other_equally_often() {
        for servers in 1..=9 {
            let times = 1 + servers % 2;
            let mut places = vec![0; servers * servers];
            let mut followed = vec![0; servers * servers];
            for round in 0..servers * times {
                let turns = turns(round, servers);
                for (place, server) in turns.iter().enumerate() {
                    places[server * servers + place] += 1;
                }
                for pair in turns.windows(2) {
                    followed[pair[0] * servers + pair[1]] += 1;
                }
            }
            assert!(places.iter().all(|count| *count == times), "{servers}: {places:?}");
            let is_even = |(pair, count): (usize, &usize)| *count == if pair % (servers + 1) == 0 { 0 } else { times };
            assert!(followed.iter().enumerate().all(is_even), "{servers}: {followed:?}");
        }
    }
}
