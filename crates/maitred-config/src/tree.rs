//! The text of a YAML file as a tree in which everything knows its place.
//!
//! Limits on size, depth and number of nodes hold while the tree is built, so a hostile file costs little. Aliases are copied
//! within the limit on nodes. Tags, merge keys and further documents are refused: nothing here needs them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::diagnostic::Region;
use crate::path::{Path, Step};

/// Longest file, in bytes.
pub(crate) const TEXT_LEN_MAX: usize = 1 << 20;
/// Deepest nesting of lists and maps.
const DEPTH_MAX: usize = 32;
/// Most nodes, copies of aliased ones included.
const NODES_MAX: usize = 100_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) region: Region,
    pub(crate) shape: Shape,
}

/// What a value is, by the core schema of YAML 1.2.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One line of a map. A key may occur more than once; the walk over the tree refuses that.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_region: Region,
    pub(crate) value: Node,
}

/// Why a text is no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeError {
    pub(crate) region: Region,
    pub(crate) message: String,
    pub(crate) help: Option<&'static str>,
}

impl Node {
    /// Reads `text`. `None` stands for a text without a document.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, TreeError> {
        if text.len() > TEXT_LEN_MAX {
            return Err(TreeError {
                region: START,
                message: format!("the file has {} bytes; at most {TEXT_LEN_MAX} are read", text.len()),
                help: None,
            });
        }
        Builder::new(text).build()
    }

    /// What a reader would call it.
    pub(crate) fn describe(&self) -> String {
        match &self.shape {
            Shape::Null => "nothing".to_owned(),
            Shape::Bool(value) => format!("`{value}`"),
            Shape::Integer(value) => format!("the number {value}"),
            Shape::Float(value) => format!("the number {value}"),
            Shape::Text(text) => format!("`{}`", shortened(text)),
            Shape::List(_) => "a list".to_owned(),
            Shape::Map(_) => "a group of options".to_owned(),
        }
    }

    /// The place of the option at `path`, or of the nearest thing above it. Lists and maps are shown at their key.
    pub(crate) fn locate(&self, path: &Path) -> Region {
        let mut node = self;
        let mut head = self.head();
        for step in path.steps() {
            let next = match (step, &node.shape) {
                (Step::Key(name), Shape::Map(entries)) => entries
                    .iter()
                    .find(|entry| entry.key == *name)
                    .map(|entry| (&entry.value, entry.place())),
                (Step::Index(index), Shape::List(items)) => items.get(*index).map(|item| (item, item.head())),
                _ => None,
            };
            let Some((below, place)) = next else { break };
            (node, head) = (below, place);
        }
        head
    }

    /// The texts at the end of `keys`, in every element of the lists on the way.
    pub(crate) fn texts(&self, keys: &[&str]) -> Vec<&str> {
        match (&self.shape, keys) {
            (Shape::List(items), _) => items.iter().flat_map(|item| item.texts(keys)).collect(),
            (Shape::Map(entries), [first, rest @ ..]) => {
                let of_key = entries.iter().filter(|entry| entry.key == *first);
                of_key.flat_map(|entry| entry.value.texts(rest)).collect()
            }
            (Shape::Text(text), []) => vec![text],
            _ => Vec::new(),
        }
    }

    /// Where a list or map begins: at its first key or element.
    fn head(&self) -> Region {
        match &self.shape {
            Shape::Map(entries) => entries.first().map_or(self.region, |entry| entry.key_region),
            Shape::List(items) => items.first().map_or(self.region, Self::head),
            _ => self.region,
        }
    }

    fn count(&self) -> usize {
        match &self.shape {
            Shape::List(items) => 1 + items.iter().map(Self::count).sum::<usize>(),
            Shape::Map(entries) => 1 + entries.iter().map(|entry| 1 + entry.value.count()).sum::<usize>(),
            _ => 1,
        }
    }

    fn depth(&self) -> usize {
        match &self.shape {
            Shape::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Shape::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

impl Entry {
    /// Where to point when the option is meant: at a simple value, otherwise at the key.
    pub(crate) fn place(&self) -> Region {
        match self.value.shape {
            Shape::Map(_) | Shape::List(_) | Shape::Null => self.key_region,
            _ => self.value.region,
        }
    }
}

const START: Region = Region {
    line: 1,
    column: 1,
    width: 1,
};

/// Longest text that a message repeats, in characters.
const SHOWN_MAX: usize = 60;

/// `text` short enough for a message.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    if text.chars().count() <= SHOWN_MAX {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(SHOWN_MAX).collect();
    short.push_str("...");
    Cow::Owned(short)
}

/// A list or map that is not yet complete.
struct Open {
    region: Region,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<(String, Region)>),
}

struct Builder<'a> {
    lines: Vec<&'a str>,
    parser: Parser<'a, StrInput<'a>>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    documents: usize,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().collect(),
            parser: Parser::new_from_str(text),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            root: None,
            documents: 0,
        }
    }

    /// What the parser refuses, at its place. It notices a tab in the indentation only where the line before ends.
    fn not_yaml(&self, error: &ScanError) -> TreeError {
        const LINES: usize = 3;
        let line = error.marker().line().max(1);
        let mut near = self.lines.iter().enumerate().skip(line - 1).take(LINES);
        let tab = near.find_map(|(index, text)| {
            let indentation = text.len() - text.trim_start().len();
            let column = text.get(..indentation)?.find('\t')?;
            Some((index + 1, column + 1))
        });
        let (line, column) = tab.unwrap_or((line, error.marker().col() + 1));
        TreeError {
            region: Region { line, column, width: 1 },
            message: format!("this is not YAML: {}", error.info()),
            help: tab.map(|_| "indent with spaces; YAML takes no tabs there"),
        }
    }

    fn build(mut self) -> Result<Option<Node>, TreeError> {
        while let Some(event) = self.parser.next_event() {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => return Err(self.not_yaml(&error)),
            };
            let region = region(span);
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) => self.document(region)?,
                Event::Scalar(text, style, anchor, tag) => {
                    refuse_tag(tag.is_some(), region)?;
                    let region = self.scalar_region(region, style);
                    let shape = scalar(text, style);
                    self.place(Node { region, shape }, anchor)?;
                }
                Event::SequenceStart(anchor, tag) => {
                    refuse_tag(tag.is_some(), region)?;
                    self.descend(region, anchor, Content::List(Vec::new()))?;
                }
                Event::MappingStart(anchor, tag) => {
                    refuse_tag(tag.is_some(), region)?;
                    self.descend(region, anchor, Content::Map(Vec::new(), None))?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.ascend()?,
                Event::Alias(anchor) => self.alias(region, anchor)?,
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
            }
        }
        Ok(self.root)
    }

    /// The place of a scalar without what the parser counts to it beyond its closing quote.
    fn scalar_region(&self, region: Region, style: ScalarStyle) -> Region {
        let quote = match style {
            ScalarStyle::SingleQuoted => '\'',
            ScalarStyle::DoubleQuoted => '"',
            ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => return region,
        };
        let line = self.lines.get(region.line - 1).copied().unwrap_or_default();
        Region {
            width: quoted_width(line.chars().skip(region.column - 1), quote).unwrap_or(region.width),
            ..region
        }
    }

    fn document(&mut self, region: Region) -> Result<(), TreeError> {
        self.documents += 1;
        if self.documents > 1 {
            return refuse(region, "the file holds more than one document; only one is read", None);
        }
        Ok(())
    }

    fn descend(&mut self, region: Region, anchor: usize, content: Content) -> Result<(), TreeError> {
        if self.open.len() >= DEPTH_MAX {
            return refuse(region, &format!("nested more than {DEPTH_MAX} levels deep"), None);
        }
        self.open.push(Open {
            region,
            anchor,
            content,
        });
        Ok(())
    }

    fn ascend(&mut self) -> Result<(), TreeError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let shape = match open.content {
            Content::List(items) => Shape::List(items),
            Content::Map(entries, _) => Shape::Map(entries),
        };
        let node = Node {
            region: open.region,
            shape,
        };
        self.place(node, open.anchor)
    }

    fn alias(&mut self, region: Region, anchor: usize) -> Result<(), TreeError> {
        let Some(node) = self.anchors.get(&anchor) else {
            return refuse(region, "this alias stands inside what it refers to", None);
        };
        if node.depth() + self.open.len() > DEPTH_MAX {
            return refuse(
                region,
                &format!("this alias nests more than {DEPTH_MAX} levels deep"),
                None,
            );
        }
        let (count, node) = (node.count(), node.clone());
        self.spend(count, region)?;
        self.place(node, 0)
    }

    /// Counts `nodes` more against the limit.
    fn spend(&mut self, nodes: usize, region: Region) -> Result<(), TreeError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX {
            return refuse(
                region,
                &format!("more than {NODES_MAX} values, aliased ones included"),
                None,
            );
        }
        Ok(())
    }

    /// Puts a complete node where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), TreeError> {
        self.spend(1, node.region)?;
        if anchor > 0 {
            self.spend(node.count(), node.region)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(entries, key)) => match key.take() {
                Some((name, key_region)) => entries.push(Entry {
                    key: name,
                    key_region,
                    value: node,
                }),
                None => *key = Some((key_text(&node)?, node.region)),
            },
        }
        Ok(())
    }
}

fn refuse<T>(region: Region, message: &str, help: Option<&'static str>) -> Result<T, TreeError> {
    Err(TreeError {
        region,
        message: message.to_owned(),
        help,
    })
}

fn refuse_tag(tagged: bool, region: Region) -> Result<(), TreeError> {
    if tagged {
        return refuse(
            region,
            "tags (`!...`) are not used here",
            Some("remove the tag; put text that looks like a number into quotes"),
        );
    }
    Ok(())
}

fn key_text(node: &Node) -> Result<String, TreeError> {
    match &node.shape {
        Shape::Text(text) => Ok(text.clone()),
        Shape::Null => refuse(node.region, "the name of an option is missing before `:`", None),
        Shape::Bool(value) => Ok(value.to_string()),
        Shape::Integer(value) => Ok(value.to_string()),
        Shape::Float(value) => Ok(value.to_string()),
        Shape::List(_) | Shape::Map(_) => refuse(
            node.region,
            "the name of an option is text, not a list or a group",
            Some("text that contains `{` or `[` goes into quotes"),
        ),
    }
}

/// The place of `span`. What runs over several lines is marked in its first.
fn region(span: Span) -> Region {
    let (start, end) = (span.start, span.end);
    let width = if start.line() == end.line() {
        end.col().saturating_sub(start.col())
    } else {
        usize::MAX
    };
    Region {
        line: start.line().max(1),
        column: start.col() + 1,
        width: width.max(1),
    }
}

/// Characters of a quoted text that begins with its opening quote, if it ends in its line.
fn quoted_width(chars: impl Iterator<Item = char>, quote: char) -> Option<usize> {
    let mut chars = chars.enumerate().skip(1).peekable();
    while let Some((index, char)) = chars.next() {
        match char {
            '\\' if quote == '"' => _ = chars.next(),
            char if char == quote => match chars.peek() {
                // Two single quotes stand for one.
                Some((_, '\'')) if quote == '\'' => _ = chars.next(),
                _ => return Some(index + 1),
            },
            _ => {}
        }
    }
    None
}

/// What a scalar is: only a plain one can be anything but text.
fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Shape {
    if style != ScalarStyle::Plain {
        return Shape::Text(text.into_owned());
    }
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Shape::Null,
        "true" | "True" | "TRUE" => Shape::Bool(true),
        "false" | "False" | "FALSE" => Shape::Bool(false),
        number => read_number(number).unwrap_or_else(|| Shape::Text(text.into_owned())),
    }
}

fn read_number(text: &str) -> Option<Shape> {
    let first = text.bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) {
        return None;
    }
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
    {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(Shape::Integer(integer));
    }
    text.parse()
        .ok()
        .filter(|float: &f64| float.is_finite())
        .map(Shape::Float)
}

#[cfg(test)]
mod tests;
