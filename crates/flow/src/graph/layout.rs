//! The positions of a picture's boxes and the routes of its arrows.
//!
//! Input are the sizes of boxes and the edges between them, output are positions. The rule, in full:
//!
//! 1. Edges that close a loop are temporarily reversed, so every edge points down.
//! 2. A box is one layer below the lowest box that leads to it. An edge over several layers gets a bend in each.
//! 3. Boxes of a layer are ordered by the mean position of their neighbours above, then below, a few times over.
//! 4. Each box moves towards the middle of its neighbours as far as the others of its layer let it.
//!
//! By hand, because the crates that do it give no way for edges (`rust-sugiyama`), draw by themselves (`layout-rs`) or
//! are made for terminals (`ascii-dag`). Nothing is drawn here.

use std::collections::VecDeque;

/// The gap between two boxes of a layer.
const BESIDE: f64 = 40.0;
/// The width of an edge where it passes a layer.
const BEND: f64 = 12.0;
/// The margin of the picture.
const MARGIN: f64 = 24.0;
/// How often boxes are ordered and moved: more changes little.
const N_SWEEPS: usize = 8;
/// How many ways are tried to break loops.
const N_TRIES: usize = 8;
/// The maximum number of bends in a picture; beyond it edges are straight. Such a picture is unreadable anyway.
const MAX_BENDS: usize = 20_000;

/// How large a box is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A point of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The positions of boxes and edges.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) size: Size,
    /// The middle of each box.
    pub(super) boxes: Vec<Point>,
    /// The points that each edge goes through, from its source to its target. None for an edge from a box to itself.
    pub(super) routes: Vec<Vec<Point>>,
}

/// Positions everything. `below` is the gap between two layers.
pub(super) fn layout(sizes: &[Size], edges: &[(usize, usize)], below: f64) -> Layout {
    let oriented = oriented(sizes.len(), edges);
    let mut graph = LayerGraph::new(sizes, &oriented);
    graph.order();
    graph.spread();
    graph.stack(below);
    let routes = graph.routes().into_iter().zip(edges.iter().zip(&oriented));
    let routes = routes.map(|(mut route, (edge, oriented))| {
        if edge != oriented {
            route.reverse();
        }
        route
    });
    let routes = routes.collect();
    let right = graph.x.iter().zip(&graph.sizes).map(|(x, it)| x + it.width / 2.0).fold(0.0, f64::max);
    let bottom = graph.bottoms.last().copied().unwrap_or(MARGIN);
    let boxes = (0..sizes.len()).map(|it| Point { x: graph.x[it], y: graph.middle(it) }).collect();
    Layout { size: Size { width: right + MARGIN, height: bottom + MARGIN }, boxes, routes }
}

/// Returns the edges, those turned that close a loop. Which ones do depends on where one begins to look; the fewer the
/// better.
fn oriented(n_boxes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let n_turned =
        |it: &Vec<(usize, usize)>| it.iter().zip(edges).filter(|(one, other)| one != other).count();
    let tries = (0..N_TRIES).map(|first| oriented_from(n_boxes, edges, first));
    tries.min_by_key(n_turned).unwrap_or_default()
}

/// Walks depth first; of the edges that leave a box, the one with the number `first` comes first.
fn oriented_from(n_boxes: usize, edges: &[(usize, usize)], first: usize) -> Vec<(usize, usize)> {
    let mut leaving = vec![Vec::new(); n_boxes];
    for (idx, (from, _)) in edges.iter().enumerate() {
        leaving[*from].push(idx);
    }
    for edges in leaving.iter_mut().filter(|it| !it.is_empty()) {
        let n_edges = edges.len();
        edges.rotate_left(first % n_edges);
    }
    let mut found = edges.to_vec();
    let (mut is_known, mut is_open) = (vec![false; n_boxes], vec![false; n_boxes]);
    for start in 0..n_boxes {
        let mut path = Vec::new();
        if !is_known[start] {
            (is_known[start], is_open[start]) = (true, true);
            path.push((start, 0));
        }
        while let Some((at, next)) = path.last_mut() {
            let Some(edge) = leaving[*at].get(*next).copied() else {
                is_open[*at] = false;
                path.pop();
                continue;
            };
            *next += 1;
            let (from, to) = edges[edge];
            if is_open[to] {
                found[edge] = (to, from);
            } else if !is_known[to] {
                (is_known[to], is_open[to]) = (true, true);
                path.push((to, 0));
            }
        }
    }
    found
}

/// Returns the layer of each box: one below the lowest box that leads to it.
fn layers(n_boxes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut leaving = vec![Vec::new(); n_boxes];
    let mut n_before = vec![0; n_boxes];
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        leaving[*from].push(*to);
        n_before[*to] += 1;
    }
    let mut layers = vec![0; n_boxes];
    let mut open: VecDeque<usize> = (0..n_boxes).filter(|it| n_before[*it] == 0).collect();
    while let Some(from) = open.pop_front() {
        for to in &leaving[from] {
            layers[*to] = layers[*to].max(layers[from] + 1);
            n_before[*to] -= 1;
            if n_before[*to] == 0 {
                open.push_back(*to);
            }
        }
    }
    layers
}

/// Boxes and bends in their layers.
struct LayerGraph {
    n_boxes: usize,
    /// Boxes first, then bends.
    sizes: Vec<Size>,
    layer_of: Vec<usize>,
    layers: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The nodes on the route of each edge, from top to bottom, including its ends.
    chains: Vec<Vec<usize>>,
    x: Vec<f64>,
    tops: Vec<f64>,
    bottoms: Vec<f64>,
}

impl LayerGraph {
    fn new(sizes: &[Size], edges: &[(usize, usize)]) -> Self {
        let layer_of = layers(sizes.len(), edges);
        let n_layers = layer_of.iter().max().map_or(0, |it| it + 1);
        let mut graph = Self {
            n_boxes: sizes.len(),
            sizes: sizes.to_vec(),
            layers: vec![Vec::new(); n_layers],
            above: vec![Vec::new(); sizes.len()],
            below: vec![Vec::new(); sizes.len()],
            chains: Vec::new(),
            x: Vec::new(),
            tops: Vec::new(),
            bottoms: Vec::new(),
            layer_of,
        };
        for (idx, layer) in graph.layer_of.iter().enumerate() {
            graph.layers[*layer].push(idx);
        }
        for (from, to) in edges {
            graph.chain(*from, *to);
        }
        graph
    }

    /// Adds bends where an edge passes layers, and connects them.
    fn chain(&mut self, from: usize, to: usize) {
        let mut chain = vec![from];
        let n_bends = self.layer_of[to].saturating_sub(self.layer_of[from] + 1);
        if self.sizes.len() - self.n_boxes + n_bends <= MAX_BENDS {
            for layer in self.layer_of[from] + 1..self.layer_of[to] {
                chain.push(self.sizes.len());
                self.layers[layer].push(self.sizes.len());
                self.sizes.push(Size { width: BEND, height: 0.0 });
                self.layer_of.push(layer);
                self.above.push(Vec::new());
                self.below.push(Vec::new());
            }
        }
        chain.push(to);
        for (upper, lower) in chain.iter().zip(chain.iter().skip(1)).filter(|_| from != to) {
            self.below[*upper].push(*lower);
            self.above[*lower].push(*upper);
        }
        self.chains.push(chain);
    }

    /// Orders the boxes of each layer.
    fn order(&mut self) {
        let mut rank = vec![0.0; self.sizes.len()];
        let note = |rank: &mut Vec<f64>, layer: &[usize]| {
            layer.iter().enumerate().for_each(|(idx, it)| rank[*it] = idx as f64);
        };
        self.layers.iter().for_each(|it| note(&mut rank, it));
        for sweep in 0..N_SWEEPS {
            let is_down = sweep % 2 == 0;
            let neighbours = if is_down { &self.above } else { &self.below };
            for step in 0..self.layers.len() {
                let layer = if is_down { step } else { self.layers.len() - 1 - step };
                let key = |it: &usize| mean(&neighbours[*it], &rank).unwrap_or(rank[*it]);
                // A stable sort: boxes without a reason to move keep their place.
                self.layers[layer].sort_by(|one, other| key(one).total_cmp(&key(other)));
                note(&mut rank, &self.layers[layer]);
            }
        }
    }

    /// Computes the horizontal positions.
    fn spread(&mut self) {
        self.x = vec![0.0; self.sizes.len()];
        for layer in &self.layers {
            let wanted = vec![0.0; layer.len()];
            place(layer, &wanted, &self.sizes, &mut self.x);
        }
        for sweep in 0..=N_SWEEPS {
            for step in 0..self.layers.len() {
                let layer = if sweep % 2 == 0 { step } else { self.layers.len() - 1 - step };
                let wanted = |it: &usize| {
                    let neighbours = match (sweep % 2, sweep == N_SWEEPS) {
                        (_, true) => [self.above[*it].as_slice(), &self.below[*it]].concat(),
                        (0, _) => self.above[*it].clone(),
                        _ => self.below[*it].clone(),
                    };
                    mean(&neighbours, &self.x).unwrap_or(self.x[*it])
                };
                let wanted: Vec<f64> = self.layers[layer].iter().map(wanted).collect();
                place(&self.layers[layer], &wanted, &self.sizes, &mut self.x);
            }
        }
        let left = self.x.iter().zip(&self.sizes).map(|(x, it)| x - it.width / 2.0);
        let left = left.min_by(f64::total_cmp).unwrap_or_default();
        self.x.iter_mut().for_each(|it| *it += MARGIN - left);
    }

    /// Finds how far down the layers are.
    fn stack(&mut self, below: f64) {
        let mut top = MARGIN;
        for layer in &self.layers {
            let height = layer.iter().map(|it| self.sizes[*it].height).fold(0.0, f64::max);
            self.tops.push(top);
            self.bottoms.push(top + height);
            top += height + below;
        }
    }

    fn middle(&self, idx: usize) -> f64 {
        (self.tops[self.layer_of[idx]] + self.bottoms[self.layer_of[idx]]) / 2.0
    }

    /// Returns the points that each edge goes through, from top to bottom.
    fn routes(&self) -> Vec<Vec<Point>> {
        let leaving = self.slots(|chain| (chain[0], chain[1]));
        let entering = self.slots(|chain| (chain[chain.len() - 1], chain[chain.len() - 2]));
        let routes = self.chains.iter().enumerate().map(|(edge, chain)| {
            let (first, last) = (chain[0], chain[chain.len() - 1]);
            if first == last {
                return Vec::new();
            }
            let half = |it: usize| self.sizes[it].height / 2.0;
            let mut route = vec![Point { x: leaving[edge], y: self.middle(first) + half(first) }];
            for bend in &chain[1..chain.len() - 1] {
                let (x, layer) = (self.x[*bend], self.layer_of[*bend]);
                route.extend([Point { x, y: self.tops[layer] }, Point { x, y: self.bottoms[layer] }]);
            }
            route.push(Point { x: entering[edge], y: self.middle(last) - half(last) });
            route
        });
        routes.collect()
    }

    /// Spreads the edges that meet a box on one side over that side, in the order of where they go.
    fn slots(&self, ends: impl Fn(&[usize]) -> (usize, usize)) -> Vec<f64> {
        let mut meeting = vec![Vec::new(); self.sizes.len()];
        for (edge, chain) in self.chains.iter().enumerate() {
            let (at, next) = ends(chain);
            meeting[at].push((edge, self.x[next]));
        }
        let mut slots = vec![0.0; self.chains.len()];
        for (at, mut edges) in meeting.into_iter().enumerate() {
            edges.sort_by(|(_, one), (_, other)| one.total_cmp(other));
            let (n_edges, width) = (edges.len() as f64, self.sizes[at].width);
            for (idx, (edge, _)) in edges.into_iter().enumerate() {
                slots[edge] = self.x[at] + width * ((idx as f64 + 1.0) / (n_edges + 1.0) - 0.5);
            }
        }
        slots
    }
}

fn mean(of: &[usize], values: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().map(|it| values[*it]).sum::<f64>() / of.len() as f64)
}

/// Positions a layer as close as possible to the wanted positions, keeping order and distance.
fn place(layer: &[usize], wanted: &[f64], sizes: &[Size], x: &mut [f64]) {
    let apart = |one: usize, other: usize| (sizes[one].width + sizes[other].width) / 2.0 + BESIDE;
    let mut pushed_right = wanted.to_vec();
    let mut pushed_left = wanted.to_vec();
    for idx in 1..layer.len() {
        let least = pushed_right[idx - 1] + apart(layer[idx - 1], layer[idx]);
        pushed_right[idx] = pushed_right[idx].max(least);
        let (left, right) = (layer.len() - 1 - idx, layer.len() - idx);
        let most = pushed_left[right] - apart(layer[left], layer[right]);
        pushed_left[left] = pushed_left[left].min(most);
    }
    // Both keep apart, so their middle does too, and it leans to neither side.
    for (idx, it) in layer.iter().enumerate() {
        x[*it] = (pushed_right[idx] + pushed_left[idx]) / 2.0;
    }
}
