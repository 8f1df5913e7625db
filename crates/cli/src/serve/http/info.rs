//! The text of INFO, taken apart. Pure functions.

use std::collections::HashMap;

/// The fields of INFO in their order.
#[derive(Debug)]
pub struct Info<'a> {
    fields: Vec<(&'a str, &'a str)>,
    by_name: HashMap<&'a str, &'a str>,
}

impl<'a> Info<'a> {
    /// Returns the fields of this text.
    pub fn new(text: &'a str) -> Self {
        let fields: Vec<_> = text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let by_name = fields.iter().copied().collect();
        Self { fields, by_name }
    }

    /// Returns all fields.
    pub fn fields(&self) -> &[(&'a str, &'a str)] {
        &self.fields
    }

    /// Returns a field's value.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.by_name.get(name).copied()
    }

    /// Returns a field's value as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the fields with this beginning: the rest of the name, and the value.
    pub fn beginning(&self, beginning: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.fields.iter().filter_map(move |(name, value)| Some((name.strip_prefix(beginning)?, *value)))
    }

    /// Returns the fields with this beginning and a number behind it, as those of databases and replicas have.
    pub fn numbered(&self, beginning: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_number = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        self.beginning(beginning).filter(move |(name, _)| is_number(name))
    }

    /// Returns the sum of a number within the values of the fields with this beginning; none if there is no such field.
    pub fn sum(&self, beginning: &str, name: &str) -> Option<f64> {
        self.numbered(beginning).filter_map(|(_, value)| number_in(value, name)).reduce(|sum, one| sum + one)
    }
}

/// Returns the value of a name within a field, as in `calls=1,usec=2`.
pub fn text_in<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the value of a name within a field, as a number.
pub fn number_in(value: &str, name: &str) -> Option<f64> {
    text_in(value, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_and_by_how_they_begin() {
        let text = "# Keyspace\r\nused_memory:12\r\ndb0:keys=3,expires=1\r\ndb12:keys=4,expires=0\r\ndbfilename:x\r\n";
        let info = Info::new(text);
        assert_eq!(
            (info.number("used_memory"), info.number("dbfilename"), info.text("none")),
            (Some(12.0), None, None)
        );
        assert_eq!(info.numbered("db").map(|(name, _)| name).collect::<Vec<_>>(), ["0", "12"]);
        assert_eq!((info.sum("db", "keys"), info.sum("slave", "offset")), (Some(7.0), None));
    }
}
