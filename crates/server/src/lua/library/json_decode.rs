//! From JSON text to Lua values.
//!
//! The texts are not trusted: the depth is bounded, and no memory is reserved for a size that a text only claims. Errors name
//! the expected token, the found token and its position, in the words of cjson 2.1. Runs on the script's thread.

use mlua::{Lua, Table, Value};

use super::json_encode::{DEPTH_MAX, Settings, array_mark};
use crate::lua::native::allowance::Allowance;
use crate::lua::native::errors::complain;
use crate::lua::native::numbers;

/// Reads the value of a text.
///
/// # Errors
/// The text is no JSON, or nests too deep; Lua has no memory left.
pub fn decode(lua: &Lua, settings: &Settings, text: &[u8]) -> mlua::Result<Value> {
    if let [first, second, ..] = text
        && (*first == 0 || *second == 0)
    {
        return Err(complain(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, settings, text, at: 0, allowance: Allowance::new(lua) };
    let first = decoder.token();
    let value = decoder.value(first, 0)?;
    match decoder.token() {
        Token { kind: TokenKind::End, .. } => Ok(value),
        other => Err(decoder.expected("the end", &other)),
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    text: &'a [u8],
    at: usize,
    allowance: Allowance<'a>,
}

/// A token and its position.
struct Token {
    kind: TokenKind,
    start: usize,
}

enum TokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl TokenKind {
    /// Returns the token's name for errors.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(why) => why,
        }
    }
}

impl Decoder<'_> {
    fn expected(&self, what: &str, found: &Token) -> mlua::Error {
        let (name, place) = (found.kind.name(), found.start + 1);
        complain(self.lua, format_args!("Expected {what} but found {name} at character {place}"))
    }

    fn value(&mut self, token: Token, depth: i64) -> mlua::Result<Value> {
        self.allowance.read(self.at - token.start)?;
        match token.kind {
            TokenKind::String(text) => Ok(Value::String(self.lua.create_string(text)?)),
            TokenKind::Number(number) => Ok(Value::Number(number)),
            TokenKind::Boolean(value) => Ok(Value::Boolean(value)),
            TokenKind::Null => Ok(Value::NULL),
            TokenKind::ObjectBegin => self.object(depth + 1).map(Value::Table),
            TokenKind::ArrayBegin => self.array(depth + 1).map(Value::Table),
            _ => Err(self.expected("value", &token)),
        }
    }

    fn descend(&self, depth: i64) -> mlua::Result<()> {
        if depth > self.settings.decode_depth_max.min(DEPTH_MAX) {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(complain(self.lua, text));
        }
        Ok(())
    }

    fn object(&mut self, depth: i64) -> mlua::Result<Table> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, TokenKind::ObjectEnd) {
            return Ok(table);
        }
        loop {
            let TokenKind::String(key) = token.kind else { return Err(self.expected("object key string", &token)) };
            self.allowance.read(key.len())?;
            let key = self.lua.create_string(key)?;
            let colon = self.token();
            if !matches!(colon.kind, TokenKind::Colon) {
                return Err(self.expected("colon", &colon));
            }
            let first = self.token();
            let value = self.value(first, depth)?;
            table.raw_set(key, value)?;
            token = self.token();
            match token.kind {
                TokenKind::ObjectEnd => return Ok(table),
                TokenKind::Comma => token = self.token(),
                _ => return Err(self.expected("comma or object end", &token)),
            }
        }
    }

    fn array(&mut self, depth: i64) -> mlua::Result<Table> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        if self.settings.marks_arrays {
            table.set_metatable(Some(array_mark(self.lua)?))?;
        }
        let mut token = self.token();
        if matches!(token.kind, TokenKind::ArrayEnd) {
            return Ok(table);
        }
        for index in 1.. {
            let value = self.value(token, depth)?;
            table.raw_set(index, value)?;
            token = self.token();
            match token.kind {
                TokenKind::ArrayEnd => break,
                TokenKind::Comma => token = self.token(),
                _ => return Err(self.expected("comma or array end", &token)),
            }
        }
        Ok(table)
    }

    fn token(&mut self) -> Token {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(&byte) = self.text.get(start) else { return Token { kind: TokenKind::End, start } };
        let kind = match byte {
            b'{' => self.short(TokenKind::ObjectBegin),
            b'}' => self.short(TokenKind::ObjectEnd),
            b'[' => self.short(TokenKind::ArrayBegin),
            b']' => self.short(TokenKind::ArrayEnd),
            b':' => self.short(TokenKind::Colon),
            b',' => self.short(TokenKind::Comma),
            0 => TokenKind::End,
            b'"' => return self.string_token(start),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        };
        Token { kind, start }
    }

    fn short(&mut self, kind: TokenKind) -> TokenKind {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> TokenKind {
        let words = [
            (b"true".as_slice(), TokenKind::Boolean(true)),
            (b"false", TokenKind::Boolean(false)),
            (b"null", TokenKind::Null),
        ];
        let rest = &self.text[self.at..];
        for (word, kind) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return kind;
            }
        }
        if self.settings.decodes_invalid_numbers && is_invalid_number(rest) {
            return self.number();
        }
        TokenKind::Wrong("invalid token")
    }

    fn number(&mut self) -> TokenKind {
        let rest = &self.text[self.at..];
        if !self.settings.decodes_invalid_numbers && is_invalid_number(rest) {
            return TokenKind::Wrong("invalid number");
        }
        match numbers::prefix(rest) {
            Some((number, len)) => {
                self.at += len;
                TokenKind::Number(number)
            }
            None => TokenKind::Wrong("invalid number"),
        }
    }

    /// Reads a string; returns it, or its fault and the fault's position.
    fn string_token(&mut self, start: usize) -> Token {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let place = self.at;
            let Some(&byte) = self.text.get(place) else {
                return Token { kind: TokenKind::Wrong("unexpected end of string"), start: place };
            };
            self.at += 1;
            match byte {
                b'"' => return Token { kind: TokenKind::String(text), start },
                b'\\' => {
                    if let Err(why) = self.escape(&mut text) {
                        return Token { kind: TokenKind::Wrong(why), start: place };
                    }
                }
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = self.text.get(self.at).copied().unwrap_or(0);
        let meant = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(text),
            _ => return Err("invalid escape code"),
        };
        self.at += 1;
        text.push(meant);
        Ok(())
    }

    /// Reads `\uXXXX`, or two of them for a character beyond 16 bits.
    fn unicode(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        const WRONG: &str = "invalid unicode escape code";
        let high = self.hex(self.at + 1).ok_or(WRONG)?;
        self.at += 5;
        let code = match high {
            0xD800..0xDC00 => {
                let pair = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u"));
                let low = self.hex(self.at + 2).filter(|low| pair && (0xDC00..0xE000).contains(low)).ok_or(WRONG)?;
                self.at += 6;
                0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
            }
            0xDC00..0xE000 => return Err(WRONG),
            code => code,
        };
        let letter = char::from_u32(code).ok_or(WRONG)?;
        text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&self, from: usize) -> Option<u32> {
        let digits = self.text.get(from..from + 4)?;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }
}

/// Returns whether the text begins with a number that `strtod` reads but JSON does not have: with a plus, a leading zero,
/// hexadecimal, infinite or not a number.
fn is_invalid_number(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'+', ..] => text[0] == b'+',
        [b'0', next, ..] => next.is_ascii_digit() || next.eq_ignore_ascii_case(&b'x'),
        [b'0'] => false,
        [b'1'..=b'9', ..] => false,
        text => ["inf", "nan"]
            .iter()
            .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use crate::lua::library::json;
    use mlua::Lua;

    fn run(script: &str) -> String {
        let lua = Lua::new();
        lua.globals().set("cjson", json::table(&lua).expect("memory")).expect("a global");
        match lua.load(script).set_name("@t").eval::<String>() {
            Ok(text) => text,
            Err(error) => crate::lua::native::errors::text_of(&error),
        }
    }

    /// Runs a script with deep nesting on a large stack: the frames of a build without optimisation are many times as large
    /// as those of a release.
    fn run_deep(script: &'static str) -> String {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(move || run(script));
        thread.expect("a thread").join().expect("it ends")
    }

    #[test]
    fn values_come_back_as_they_went() {
        for text in
            [r#"{"a":[1,2.5,-3e+20,"x",true,false,null]}"#, "[[],{}]", r#""\u0000\"\\\/\b\f\n\r\t\u007f""#, "1e-10"]
        {
            let back = run(&format!("return cjson.encode(cjson.decode([==[{text}]==]))"));
            assert_eq!(back, text.replace("[[],", "[{},"));
        }
        assert_eq!(run(r#"return cjson.decode('"\\ud83d\\ude00"')"#), "\u{1F600}");
        assert_eq!(
            run("cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('[[],{}]'))"),
            "[[],{}]"
        );
    }

    #[test]
    fn sparse_tables_and_settings() {
        assert_eq!(run("return cjson.encode({[1]=1,[3]=3})"), "[1,null,3]");
        assert_eq!(run("return cjson.encode({[1]=1,[30]=3})"), "t:1: Cannot serialise table: excessively sparse array");
        assert_eq!(run("cjson.encode_sparse_array(true) return cjson.encode({[30]=3})"), r#"{"30":3}"#);
        assert_eq!(run("return cjson.encode(1/0)"), "t:1: Cannot serialise number: must not be NaN or Inf");
        assert_eq!(run("return cjson.encode(print)"), "t:1: Cannot serialise function: type not supported");
        assert_eq!(run("cjson.encode_number_precision(3) return cjson.encode(3.14159)"), "3.14");
        assert_eq!(run("return tostring(cjson.encode_max_depth(5))"), "5");
    }

    #[test]
    fn wrong_texts_are_told_where() {
        for (text, why) in [
            ("", "Expected value but found T_END at character 1"),
            ("{1:2}", "Expected object key string but found T_NUMBER at character 2"),
            ("[1 2]", "Expected comma or array end but found T_NUMBER at character 4"),
            ("{\"a\" 1}", "Expected colon but found T_NUMBER at character 6"),
            ("{\"a\":1 1}", "Expected comma or object end but found T_NUMBER at character 8"),
            ("1 1", "Expected the end but found T_NUMBER at character 3"),
            ("\"a", "Expected value but found unexpected end of string at character 3"),
            ("\"\\x\"", "Expected value but found invalid escape code at character 2"),
            ("foo", "Expected value but found invalid token at character 1"),
        ] {
            assert_eq!(run(&format!("return cjson.decode([==[{text}]==])")), format!("t:1: {why}"), "{text}");
        }
        let deep = run_deep("return cjson.decode(string.rep('[', 100000))");
        assert_eq!(deep, "t:1: Found too many nested data structures (1001) at character 1001");
        let itself = run_deep("local a = {} a[1] = a return cjson.encode(a)");
        assert_eq!(itself, "t:1: Cannot serialise, excessive nesting (1001)");
    }
}
