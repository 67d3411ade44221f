//! Texts that are like English in what matters to an index: few words make up most of a text, and most words are rare.

/// The most frequent words.
const FREQUENT: &str = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they \
    which one you were her all she there would their we him been has when who will more no if out so said what up its about into \
    than them can only other new some could time these two may then do first any my now such like our over man me even most made \
    after also did many before must through years where much your way well down should because each just those people how too \
    little state good very make world still own see men work long get here between both life being under never day same another \
    know while last might us great old year off come since against go came right used take three states himself few house use \
    during without again place around however home small found thought went say part once general high upon school every does got \
    united left number course war until always away something fact though water less public put think almost hand enough far took \
    head yet government system better set told nothing night end why called find going look asked later knew point next program \
    city business give group toward young days let room word side social given present several order national possible rather \
    second face per among form important often things looked early white case large big need within felt along children saw best \
    church ever least power development light thing seemed family interest want members others mind country area done turned \
    although open service problem certain kind different began door help sense means whole matter power report question data test \
    server request answer policy account market price model value engine search index table query report signal record change";

/// A generator of texts: splitmix64 over words whose frequencies fall with their rank.
pub(super) struct Writer {
    state: u64,
    frequent: Vec<&'static str>,
    /// The sums of the frequencies.
    sums: Vec<f64>,
}

/// How many words there are.
const VOCABULARY: usize = 60_000;
const SYLLABLES: [&str; 24] = [
    "ra", "ten", "lo", "mi", "ser", "con", "ver", "da", "pol", "in", "ter", "gra", "su", "ble", "nor", "tic",
    "pre", "al", "mon", "ci", "fa", "tor", "est", "um",
];

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        let weights = (0..VOCABULARY).map(|it| 1.0 / (it as f64 + 2.7));
        let sums = weights.scan(0.0, |sum, it| {
            *sum += it;
            Some(*sum)
        });
        Self { state: seed, frequent: FREQUENT.split_whitespace().collect(), sums: sums.collect() }
    }

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the word of a rank.
    fn word(&self, rank: usize) -> String {
        if let Some(frequent) = self.frequent.get(rank) {
            return (*frequent).to_owned();
        }
        let (mut word, mut rest) = (String::new(), rank);
        while rest > 0 {
            word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
            rest /= SYLLABLES.len();
        }
        word
    }

    fn rank(&mut self) -> usize {
        let at = self.share() * self.sums.last().copied().unwrap_or(1.0);
        self.sums.partition_point(|it| *it < at)
    }

    /// Returns about `words` words in sentences and paragraphs.
    pub(super) fn text(&mut self, words: usize) -> String {
        let mut text = String::with_capacity(words * 6);
        let mut left_in_sentence = 0;
        for no in 0..words {
            if left_in_sentence == 0 {
                left_in_sentence = 8 + (self.roll() % 16) as usize;
                if no > 0 {
                    text.push('.');
                    text.push_str(if self.roll().is_multiple_of(3) { "\n\n" } else { " " });
                }
            } else {
                text.push(' ');
            }
            let rank = self.rank();
            text.push_str(&self.word(rank));
            left_in_sentence -= 1;
        }
        text.push('.');
        text
    }

    /// Returns a question: some words that carry meaning, and some that do not.
    pub(super) fn query(&mut self) -> String {
        let count = 3 + (self.roll() % 4) as usize;
        let mut words = vec!["what".to_owned(), "is".to_owned(), "the".to_owned()];
        for _ in 0..count {
            // As people ask: neither for the most frequent words nor for those that occur once.
            let rank = 120 + (self.share().powi(3) * 12_000.0) as usize;
            words.push(self.word(rank));
        }
        words.join(" ")
    }
}
