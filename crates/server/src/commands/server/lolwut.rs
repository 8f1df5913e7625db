//! LOLWUT: a picture in characters.
//!
//! A one-dimensional cellular automaton, drawn downwards from one cell: each row follows from the one above by a rule of
//! eight bits (Stephen Wolfram, "Statistical mechanics of cellular automata", 1983). VERSION chooses the rule.

use sleeve_wire::number;

use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The default rule: its picture is chaotic on one side and regular on the other.
const RULE_DEFAULT: i64 = 30;
const COLUMNS: usize = 63;
const ROWS: usize = 24;

/// LOLWUT \[VERSION version\]
pub fn lolwut(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let is_versioned = request.args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"version"));
    let rule = match request.args.get(2).filter(|_| is_versioned) {
        Some(version) => number::parse_i64(version).ok_or(Error::NOT_INTEGER)?,
        None => RULE_DEFAULT,
    };
    let picture = draw(rule as u8);
    let text = format!("{picture}Rule {}. Redis ver. {}\n", rule as u8, crate::REDIS_VERSION);
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Draws the rows of the automaton that follow one cell.
fn draw(rule: u8) -> String {
    let mut cells = [false; COLUMNS];
    cells[COLUMNS / 2] = true;
    let mut picture = String::new();
    for _ in 0..ROWS {
        picture.extend(cells.map(|is_alive| if is_alive { '#' } else { ' ' }));
        picture.truncate(picture.trim_end_matches(' ').len());
        picture.push('\n');
        let above = cells;
        for (at, cell) in cells.iter_mut().enumerate() {
            let alive = |column: usize| u8::from(above[column % COLUMNS]);
            let neighbours = alive(at + COLUMNS - 1) << 2 | alive(at) << 1 | alive(at + 1);
            *cell = rule >> neighbours & 1 == 1;
        }
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_90_makes_a_triangle() {
        let rows: Vec<String> = draw(90).lines().take(4).map(|row| row.trim().to_owned()).collect();
        assert_eq!(rows, ["#", "# #", "#   #", "# # # #"]);
    }
}
