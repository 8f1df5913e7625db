//! Lines over numbers of clients or lengths of pipelines, drawn as SVG.

use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;

/// The size of a plot in pixels. The legend is beside the lines, because over the lines it would hide points.
const SIZE: (u32, u32) = (590, 340);

/// The width of the legend, in pixels.
const LEGEND_WIDTH: u32 = 160;

/// The most characters of a name in the legend.
const NAME_MAX: usize = 20;

/// The default driver, and its older name, which results of earlier versions have. Of several variants of Sleeve, the one
/// with this driver represents them.
const DEFAULT_DRIVER: [&str; 2] = ["epoll", "hybrid"];

/// The colours of the servers, which colour-blind readers can tell apart (Okabe and Ito, 2008). With more servers they
/// repeat.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
];

/// The spacing of the values of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences, from 0 on.
    Linear,
    /// Equal distances for equal factors.
    Logarithmic,
}

/// A server's name and its points: the place on the axis, and the value.
pub type Series = (String, Vec<(u32, f64)>);

/// The text around the lines.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The title above the plot.
    pub title: &'a str,
    /// The label below the plot, for the places.
    pub places: &'a str,
    /// The label beside the plot, for the values.
    pub values: &'a str,
}

/// Draws one line for each server, over places that are spaced by factors of two. Where a server has no point, its line has
/// none.
///
/// # Errors
/// The errors of the library.
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
    let (plot, beside) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .caption(labels.title, ("sans-serif", 16))
        .margin(8)
        // Half of the last number of the axis stands behind its end.
        .margin_right(24)
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
    let styles = styles(series);
    for ((_, points), style) in series.iter().zip(&styles) {
        let points: Vec<(f64, f64)> = points.iter().map(|(place, value)| (f64::from(*place), *value)).collect();
        chart.draw_series(LineSeries::new(points.clone(), style.line())).map_err(failed)?;
        let drawn = match style.variant {
            0 => chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, style.colour.filled()))),
            1 => {
                chart.draw_series(points.into_iter().map(|point| TriangleMarker::new(point, 4, style.colour.filled())))
            }
            _ => chart.draw_series(points.into_iter().map(|point| Cross::new(point, 3, style.colour))),
        };
        drawn.map_err(failed)?;
    }
    legend(&beside, series, &styles).map_err(failed)?;
    root.present().map_err(failed)
}

/// The look of a server's line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Style {
    colour: RGBColor,
    width: u32,
    /// The number of the variant in its group: 0 for the one that represents the group.
    variant: usize,
}

impl Style {
    fn line(self) -> ShapeStyle {
        self.colour.stroke_width(self.width)
    }
}

/// Returns the name of which this is a variant: `sleeve` for `sleeve, tokio`.
fn group(name: &str) -> &str {
    name.split_once(',').map_or(name, |(group, _)| group)
}

/// Returns whether this variant represents its group: it is the one with the default driver, or, without such a variant, the
/// first.
pub fn leads(name: &str, names: &[&str]) -> bool {
    let own: Vec<&&str> = names.iter().filter(|other| group(other) == group(name)).collect();
    let leader = own.iter().find(|other| DEFAULT_DRIVER.iter().any(|driver| other.contains(driver))).or(own.first());
    leader.is_some_and(|leader| **leader == name)
}

/// Returns the styles of the lines: a colour for each group. The variant that represents the group has the strongest line,
/// the others paler and thinner ones.
fn styles(series: &[Series]) -> Vec<Style> {
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let mut one = |name: &str, of: usize| {
        let place = groups.iter().position(|(known, _)| *known == group(name)).unwrap_or_else(|| {
            groups.push((group(&series[of].0), 0));
            groups.len() - 1
        });
        let colour = COLOURS[place % COLOURS.len()];
        if leads(name, &names) {
            return Style { colour, width: 3, variant: 0 };
        }
        groups[place].1 += 1;
        Style { colour: paler(colour), width: 1, variant: groups[place].1 }
    };
    names.iter().enumerate().map(|(at, name)| one(name, at)).collect()
}

fn paler(colour: RGBColor) -> RGBColor {
    let half = |part: u8| part / 2 + 120;
    RGBColor(half(colour.0), half(colour.1), half(colour.2))
}

/// Returns the names with their lines, in the order in which the lines end, so that a name is found near its line.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    series: &[Series],
    styles: &[Style],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    let last = |(_, points): &Series| points.last().map_or(0.0, |(_, value)| *value);
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|one, other| last(&series[*other]).total_cmp(&last(&series[*one])));
    for (at, place) in order.into_iter().enumerate() {
        let y = 48 + 22 * at as i32;
        let style = styles[place];
        area.draw(&PathElement::new([(6, y), (30, y)], style.line()))?;
        match style.variant {
            0 => area.draw(&Circle::new((18, y), 3, style.colour.filled())),
            1 => area.draw(&TriangleMarker::new((18, y), 4, style.colour.filled())),
            _ => area.draw(&Cross::new((18, y), 3, style.colour)),
        }?;
        area.draw(&Text::new(shortened(&series[place].0), (38, y - 6), ("sans-serif", 14)))?;
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

/// An axis on which equal distances are equal factors.
#[derive(Clone, Debug)]
struct Factors {
    low: f64,
    high: f64,
    /// Returns the places between these two that have a line and a number.
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

/// Returns the powers of two between these two.
fn doublings(low: f64, high: f64) -> Vec<f64> {
    (low.log2().ceil() as i32..=high.log2().floor() as i32).map(|exponent| f64::from(exponent).exp2()).collect()
}

/// Returns 1, 2, 5, 10 …; if these are few, all digits.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let decades = || low.log10().floor() as i32..=high.log10().floor() as i32;
    let of = |digits: &[f64]| -> Vec<f64> {
        let all = decades().flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let few = of(&[1.0, 2.0, 5.0]);
    if few.len() > 2 { few } else { of(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) }
}

/// Returns a number as text with three digits or so: 1,200,000 is 1.2 M.
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

    fn svg_of(series: &[Series]) -> String {
        lines(Labels { title: "GET", places: "clients", values: "requests a second" }, Scale::Linear, series).unwrap()
    }

    #[test]
    fn variants_of_one_program_share_a_colour_and_one_stands_for_them() {
        let names = ["sleeve, tokio", "sleeve, epoll", "sleeve, uring", "redis 8.6.2"];
        let series: Vec<Series> = names.map(|name| (name.to_owned(), vec![(1, 1.0), (2, 2.0)])).to_vec();
        let styles = styles(&series);
        assert_eq!(styles.iter().map(|style| style.variant).collect::<Vec<_>>(), [1, 0, 2, 0]);
        assert_eq!((styles[0].colour, styles[1].colour), (styles[2].colour, COLOURS[0]));
        assert_eq!(styles[3].colour, COLOURS[1]);
        assert_eq!(names.map(|name| leads(name, &names)), [false, true, false, true]);
    }

    #[test]
    fn the_legend_is_beside_the_lines_and_nothing_is_cut() {
        let svg = svg_of(&[("sleeve, uring".to_owned(), vec![(1, 10.0), (1024, 1000.0)])]);
        let places = |tag: &str, name: &str| {
            let of = svg.split(tag).skip(1).filter_map(|rest| rest.split_once(name)?.1.split('"').next()?.parse().ok());
            of.collect::<Vec<f64>>()
        };
        // Every text begins and ends within the picture: at 14 pixels a character is 9 wide at most.
        assert!(svg.contains("sleeve, uring") && svg.contains("1024"), "{svg}");
        let (plot, width) = (f64::from(SIZE.0 - LEGEND_WIDTH), f64::from(SIZE.0));
        assert!(plot + 38.0 + 9.0 * "sleeve, uring".len() as f64 <= width + 40.0);
        let circles = places("<circle", "cx=\"");
        assert!(
            circles.iter().filter(|x| **x < plot - 20.0).count() == 2 && circles.iter().any(|x| *x > plot),
            "{circles:?}"
        );
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
        assert!(!svg_of(&series).contains("…"));
        assert_eq!(lines(labels, Scale::Linear, &[]), Ok(String::new()));
        assert_eq!(lines(labels, Scale::Logarithmic, &[("a".to_owned(), vec![(1, 0.0)])]), Ok(String::new()));
        assert!(lines(labels, Scale::Linear, &[("a".to_owned(), vec![(7, 1.0)])]).unwrap().contains("<circle"));
    }
}
