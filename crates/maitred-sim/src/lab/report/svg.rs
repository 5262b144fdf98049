//! A small writer of plots: axes, lines, areas and bars, with colours that the page's style gives.

use super::text::{add, add_line, escaped, seconds, short};
use crate::lab::statistics::Interval;

/// Colours of series; a series beyond them takes the first one again, dashed.
pub(super) const COLOURS: usize = 8;

/// What a plot is called, and its size in pixels.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Unique on the page.
    pub id: String,
    pub title: String,
    /// What is to be seen, for readers who do not see it.
    pub description: String,
    pub width: f64,
    pub height: f64,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Percent,
    Plain,
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::Seconds => seconds(value),
            Self::Percent => format!("{} %", short(value * 100.0)),
            Self::Plain => short(value),
        }
    }
}

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub label: &'static str,
    pub unit: Unit,
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// From zero to a round number that is not below `most`.
    pub(super) fn linear(label: &'static str, unit: Unit, most: f64) -> Self {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = step_of(most);
        Self {
            label,
            unit,
            scale: Scale::Linear,
            low: 0.0,
            high: (most / step - 1e-9).ceil() * step,
        }
    }

    /// From zero to `most` exactly.
    pub(super) fn exact(label: &'static str, unit: Unit, most: f64) -> Self {
        let high = if most > 0.0 { most } else { 1.0 };
        Self {
            high,
            ..Self::linear(label, unit, most)
        }
    }

    /// From `least` to `most`, each rounded outwards to 1, 2 or 5 times a power of ten.
    pub(super) fn logarithmic(label: &'static str, unit: Unit, least: f64, most: f64) -> Self {
        let least = if least > 0.0 { least } else { 1e-3 };
        let most = most.max(least * 2.0);
        let steps = || DECADES.flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(decade)));
        Self {
            label,
            unit,
            scale: Scale::Logarithmic,
            low: steps()
                .take_while(|step| *step <= least * (1.0 + 1e-9))
                .last()
                .unwrap_or(least),
            high: steps().find(|step| *step >= most * (1.0 - 1e-9)).unwrap_or(most),
        }
    }

    /// Where a value lies, from 0 to 1; beyond the ends at the ends.
    fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step_of(self.high);
                (0_u32..=20)
                    .map(|index| f64::from(index) * step)
                    .take_while(|tick| *tick <= self.high * (1.0 + 1e-9))
                    .collect()
            }
            Scale::Logarithmic => {
                let factors: &[f64] = if self.high / self.low < 200.0 {
                    &[1.0, 2.0, 5.0]
                } else {
                    &[1.0]
                };
                DECADES
                    .flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)))
                    .filter(|tick| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(tick))
                    .collect()
            }
        }
    }
}

/// The powers of ten that a logarithmic axis may show.
const DECADES: std::ops::RangeInclusive<i32> = -9..=9;

/// A step of 1, 2 or 5 times a power of ten that divides `most` into about five.
fn step_of(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(power)
}

/// Room for labels: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (62.0, 26.0, 10.0, 44.0);

/// A plot with two axes, being drawn.
#[derive(Debug)]
pub(super) struct Plot {
    frame: Frame,
    x: Axis,
    y: Axis,
    body: String,
}

impl Plot {
    pub(super) fn new(frame: Frame, x: Axis, y: Axis) -> Self {
        let mut plot = Self {
            frame,
            x,
            y,
            body: String::new(),
        };
        plot.draw_axes();
        plot
    }

    /// A line through `points`.
    pub(super) fn line(&mut self, points: &[(f64, f64)], series: usize) {
        let places = self.places(points);
        add_line!(self.body, "<polyline class=\"{}\" points=\"{places}\"/>", class(series));
    }

    /// A point at each of `points`, with a whisker from `low` to `high` where there is one.
    pub(super) fn whisker(&mut self, x: f64, y: &Interval, series: usize) {
        let (left, middle) = self.at(x, y.mean);
        let (_, low) = self.at(x, y.low);
        let (_, high) = self.at(x, y.high);
        let class = class(series);
        if low - high > 0.5 {
            add_line!(
                self.body,
                "<line class=\"{class}\" x1=\"{left:.1}\" y1=\"{low:.1}\" x2=\"{left:.1}\" y2=\"{high:.1}\"/>"
            );
        }
        add_line!(
            self.body,
            "<circle class=\"{class}\" cx=\"{left:.1}\" cy=\"{middle:.1}\" r=\"2.5\"/>"
        );
    }

    /// The area between two lines over the same places.
    pub(super) fn area(&mut self, lower: &[(f64, f64)], upper: &[(f64, f64)], series: usize) {
        let there = self.places(upper);
        let back: Vec<(f64, f64)> = lower.iter().rev().copied().collect();
        let back = self.places(&back);
        add_line!(
            self.body,
            "<polygon class=\"a{}\" points=\"{there} {back}\"/>",
            series % COLOURS
        );
    }

    /// A thin dashed line that others are held against.
    pub(super) fn reference(&mut self, from: (f64, f64), to: (f64, f64)) {
        let places = self.places(&[from, to]);
        add_line!(self.body, "<polyline class=\"ref\" points=\"{places}\"/>");
    }

    pub(super) fn finish(self) -> String {
        wrapped(&self.frame, &self.body)
    }

    fn places(&self, points: &[(f64, f64)]) -> String {
        let mut out = String::with_capacity(points.len() * 12);
        for (index, (x, y)) in points.iter().enumerate() {
            let (left, top) = self.at(*x, *y);
            let gap = if index == 0 { "" } else { " " };
            add!(out, "{gap}{left:.1},{top:.1}");
        }
        out
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (left, right, top, bottom) = MARGIN;
        let width = self.frame.width - left - right;
        let height = self.frame.height - top - bottom;
        (left + self.x.place(x) * width, top + (1.0 - self.y.place(y)) * height)
    }

    fn draw_axes(&mut self) {
        let (x_low, y_low, x_high, y_high) = (self.x.low, self.y.low, self.x.high, self.y.high);
        let (left, bottom) = self.at(x_low, y_low);
        let (right, top) = self.at(x_high, y_high);
        for tick in self.y.ticks() {
            let (_, y) = self.at(x_low, tick);
            let text = self.y.unit.write(tick);
            add_line!(
                self.body,
                "<line class=\"grid\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        for tick in self.x.ticks() {
            let (x, _) = self.at(tick, y_low);
            let text = self.x.unit.write(tick);
            add_line!(
                self.body,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
        }
        add_line!(
            self.body,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left.midpoint(right),
            bottom + 34.0,
            escaped(self.x.label)
        );
        let middle = top.midpoint(bottom);
        add_line!(
            self.body,
            "<text class=\"label\" x=\"14\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle:.1})\">{}</text>",
            escaped(self.y.label)
        );
    }
}

/// Horizontal bars of fractions with names, and a line at `reference`. The frame's height is what the rows need.
pub(super) fn bars(mut frame: Frame, rows: &[(&str, Interval)], reference: Option<f64>) -> String {
    const NAMES: f64 = 150.0;
    const FIGURES: f64 = 110.0;
    const ROW: f64 = 22.0;
    let most = rows
        .iter()
        .map(|(_, rate)| rate.high)
        .chain(reference)
        .fold(0.0, f64::max);
    let axis = Axis::linear("", Unit::Percent, most);
    let width = frame.width - NAMES - FIGURES;
    let at = |rate: f64| NAMES + axis.place(rate) * width;
    frame.height = ROW * rows.len() as f64 + 12.0;
    let mut body = String::new();
    for (index, (name, rate)) in rows.iter().enumerate() {
        let top = 4.0 + ROW * index as f64;
        let middle = top + 8.0;
        add_line!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"a{}\" x=\"{NAMES:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"16\"/>\
             <line class=\"s-ink\" x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            top + 12.0,
            escaped(name),
            index % COLOURS,
            at(rate.mean) - NAMES,
            at(rate.low),
            at(rate.high),
            NAMES + width + 8.0,
            top + 12.0,
            super::text::interval(rate, super::text::percent)
        );
    }
    if let Some(rate) = reference {
        let x = at(rate);
        add_line!(
            body,
            "<line class=\"ref\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
            frame.height
        );
    }
    wrapped(&frame, &body)
}

/// A short piece of a series' line, for a legend.
pub(super) fn swatch(series: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><line class=\"{}\" x1=\"1\" y1=\"5\" x2=\"27\" y2=\"5\"/></svg>",
        class(series)
    )
}

fn class(series: usize) -> String {
    format!("s{} d{}", series % COLOURS, series / COLOURS % 3)
}

fn wrapped(frame: &Frame, body: &str) -> String {
    let (id, width, height) = (escaped(&frame.id), frame.width, frame.height);
    format!(
        "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 {width} {height}\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{body}</svg>\n",
        escaped(&frame.title),
        escaped(&frame.description)
    )
}
