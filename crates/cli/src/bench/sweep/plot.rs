//! Lines over numbers of clients or lengths of pipelines, drawn as SVG.

use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;

/// Pixels of a plot.
const SIZE: (u32, u32) = (560, 360);

/// One colour for each server, told apart by colour-blind readers too (Okabe and Ito, 2008); then they begin again.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
];

/// How the values of a plot are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From nought on.
    Linear,
    /// By factors.
    Logarithmic,
}

/// A server's points: where on the axis, and how much.
pub type Series = (String, Vec<(u32, f64)>);

/// What stands around the lines.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below it.
    pub places: &'a str,
    /// Beside it.
    pub values: &'a str,
}

/// Draws a line a server, over places that are spaced by factors of two. Nothing is drawn where there is no point.
///
/// # Errors
/// What the library says.
pub fn lines(labels: Labels<'_>, scale: Scale, series: &[Series]) -> Result<String, String> {
    let points = || series.iter().flat_map(|(_, points)| points.iter().copied());
    let (first, last) = (points().map(|(place, _)| place).min(), points().map(|(place, _)| place).max());
    let (Some(first), Some(last)) = (first.map(f64::from), last.map(f64::from)) else { return Ok(String::new()) };
    let values = || points().map(|(_, value)| value).filter(|value| *value > 0.0);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if most == 0.0 {
        return Ok(String::new());
    }
    let mut out = String::new();
    let root = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
    let places = Factors { low: first, high: last.max(first * 2.0), ticks: doublings };
    match scale {
        Scale::Linear => draw(&root, labels, series, places, 0.0..most * 1.1),
        Scale::Logarithmic => {
            draw(&root, labels, series, places, Factors { low: least / 1.3, high: most * 1.5, ticks: steps })
        }
    }?;
    drop(root);
    Ok(out)
}

fn draw<Y>(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    labels: Labels<'_>,
    series: &[Series],
    places: Factors,
    values: impl AsRangedCoord<CoordDescType = Y, Value = f64>,
) -> Result<(), String>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let failed = |error: DrawingAreaErrorKind<_>| error.to_string();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(root)
        .caption(labels.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(places, values)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(labels.places)
        .y_desc(labels.values)
        .x_label_formatter(&|place| format!("{place:.0}"))
        .y_label_formatter(&|value| short(*value))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()
        .map_err(failed)?;
    for ((name, points), colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = points.iter().map(|(place, value)| (f64::from(*place), *value)).collect();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let falls = |(_, points): &Series| points.first().zip(points.last()).is_some_and(|(first, last)| first.1 > last.1);
    let falling = series.iter().filter(|series| falls(series)).count();
    chart
        .configure_series_labels()
        .position(if falling * 2 > series.len() {
            SeriesLabelPosition::UpperRight
        } else {
            SeriesLabelPosition::LowerRight
        })
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()
        .map_err(failed)?;
    root.present().map_err(failed)
}

/// An axis on which equal distances are equal factors.
#[derive(Clone, Debug)]
struct Factors {
    low: f64,
    high: f64,
    /// The places between these two that have a line and a number.
    ticks: fn(f64, f64) -> Vec<f64>,
}

impl Ranged for Factors {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (self.ticks)(self.low, self.high)
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Factors {}

/// Powers of two.
fn doublings(low: f64, high: f64) -> Vec<f64> {
    (low.log2().ceil() as i32..=high.log2().floor() as i32).map(|exponent| f64::from(exponent).exp2()).collect()
}

/// 1, 2, 5, 10 …; where these are few, all digits.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let decades = || low.log10().floor() as i32..=high.log10().floor() as i32;
    let of = |digits: &[f64]| -> Vec<f64> {
        let all = decades().flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let few = of(&[1.0, 2.0, 5.0]);
    if few.len() > 2 { few } else { of(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) }
}

/// A number with three digits or so: 1,200,000 is 1.2 M.
pub fn short(value: f64) -> String {
    let (value, unit) = match value {
        large if large >= 1e6 => (large / 1e6, " M"),
        large if large >= 1e4 => (large / 1e3, " k"),
        other => (other, ""),
    };
    let text = match value {
        large if large >= 100.0 => format!("{value:.0}"),
        one if one >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.0125, 1.5, 12.0, 640.0, 9999.0, 12_345.0, 1_200_000.0].map(short);
        assert_eq!(texts, ["0", "0.013", "1.5", "12", "640", "9999", "12.35 k", "1.2 M"]);
    }

    #[test]
    fn an_axis_has_some_numbers_however_short_it_is() {
        assert_eq!(doublings(1.0, 9.0), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(steps(0.9, 12.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(steps(5.5, 8.1), [6.0, 7.0, 8.0]);
    }

    #[test]
    fn a_plot_has_a_line_for_each_server_and_escapes_their_names() {
        let labels = Labels { title: "GET", places: "clients", values: "requests a second" };
        let series = [("a<b".to_owned(), vec![(1, 10.0), (1024, 1000.0)]), ("c".to_owned(), vec![(1, 5.0)])];
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = lines(labels, scale, &series).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
            assert!(svg.contains("a&lt;b") && svg.matches("<polyline").count() >= 2 && svg.contains("1024"), "{svg}");
        }
        assert_eq!(lines(labels, Scale::Linear, &[]), Ok(String::new()));
        assert_eq!(lines(labels, Scale::Logarithmic, &[("a".to_owned(), vec![(1, 0.0)])]), Ok(String::new()));
        assert!(lines(labels, Scale::Linear, &[("a".to_owned(), vec![(7, 1.0)])]).unwrap().contains("<circle"));
    }
}
