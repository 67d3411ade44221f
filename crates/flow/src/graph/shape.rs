//! The outlines of boxes in a picture, and how each kind is coloured.

use super::layout::{Point, Size};
use super::picture::Family;

/// How far slanted sides and points reach inwards.
const SLANT: f64 = 12.0;

/// The colours: one class a family, and for dark screens once more.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark}\
.page{fill:#fff}\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;text-anchor:middle}\
.name{font-size:13px;font-weight:600;fill:#1c2026}\
.about{font-size:11px;fill:#57606a}\
.label{font-size:11px;fill:#57606a;paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
.arrow{fill:none;stroke:#8b949e;stroke-width:1.5}\
.portal-way{stroke-dasharray:5 4}\
.head{fill:#8b949e}\
.box{fill:#f6f8fa;stroke:#8b949e;stroke-width:1.5}\
.start{fill:#e6f4ea;stroke:#34a853}\
.model{fill:#e8f0fe;stroke:#4285f4}\
.person{fill:#fef3e0;stroke:#f29900}\
.thread{fill:#f3e8fd;stroke:#a142f4}\
.tool{fill:#e4f7fb;stroke:#12a4af}\
.choice{fill:#fce8e6;stroke:#ea4335}\
.portal{stroke-dasharray:5 4}\
@media (prefers-color-scheme:dark){\
.page{fill:#0d1117}\
.name{fill:#e6edf3}\
.about{fill:#9da7b3}\
.label{fill:#9da7b3;stroke:#0d1117}\
.box{fill:#161b22}\
.start{fill:#12261e}\
.model{fill:#121d2f}\
.person{fill:#2b2111}\
.thread{fill:#231733}\
.tool{fill:#0f2629}\
.choice{fill:#2d1718}\
}";

/// Returns the class of a family.
pub(super) fn class(family: Family) -> &'static str {
    match family {
        Family::Start => "box start",
        Family::Model => "box model",
        Family::Person => "box person",
        Family::Thread => "box thread",
        Family::Tool => "box tool",
        Family::Choice => "box choice",
        Family::Portal => "box portal",
        Family::Fork | Family::Store | Family::Flow | Family::Data => "box",
    }
}

/// Returns the outline of a box around its middle, as the `d` of a path.
pub(super) fn outline(family: Family, middle: Point, size: Size) -> String {
    let (left, right) = (middle.x - size.width / 2.0, middle.x + size.width / 2.0);
    let (top, bottom) = (middle.y - size.height / 2.0, middle.y + size.height / 2.0);
    let polygon = |points: &[(f64, f64)]| {
        let each: Vec<String> = points.iter().map(|(x, y)| format!("{x:.0},{y:.0}")).collect();
        format!("M{}Z", each.join("L"))
    };
    let rounded = |radius: f64| {
        let (x1, x2, y1, y2) = (left + radius, right - radius, top + radius, bottom - radius);
        let arc = format!("A{radius:.0},{radius:.0} 0 0 1");
        format!(
            "M{x1:.0},{top:.0}H{x2:.0}{arc} {right:.0},{y1:.0}V{y2:.0}{arc} {x2:.0},{bottom:.0}\
             H{x1:.0}{arc} {left:.0},{y2:.0}V{y1:.0}{arc} {x1:.0},{top:.0}Z"
        )
    };
    match family {
        Family::Start | Family::Portal => rounded(size.height / 2.0),
        Family::Thread | Family::Store => rounded(SLANT),
        Family::Model | Family::Data => rounded(4.0),
        Family::Person => {
            polygon(&[(left + SLANT, top), (right, top), (right - SLANT, bottom), (left, bottom)])
        }
        Family::Tool => {
            polygon(&[(left, top), (right - SLANT, top), (right, bottom), (left + SLANT, bottom)])
        }
        Family::Choice | Family::Fork => polygon(&[
            (left, middle.y),
            (left + SLANT, top),
            (right - SLANT, top),
            (right, middle.y),
            (right - SLANT, bottom),
            (left + SLANT, bottom),
        ]),
        Family::Flow => {
            let (x1, x2) = (left + SLANT / 2.0, right - SLANT / 2.0);
            format!("{}M{x1:.0},{top:.0}V{bottom:.0}M{x2:.0},{top:.0}V{bottom:.0}", rounded(4.0))
        }
    }
}
