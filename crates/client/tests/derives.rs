//! Structs that derive their conversion to arguments and from replies: in both protocols, with every form that a declaration
//! may have.
#![cfg(feature = "embedded")]

use std::borrow::Cow;
use std::collections::HashMap;

use sleeve::prelude::*;
use sleeve::{Client, Config, Endpoint, ErrorKind, Fields, FromReply, Protocol, Row, ToArg, ToArgs, Value};

#[derive(FromReply, ToArgs, Debug, Clone, PartialEq)]
struct User {
    name: String,
    #[sleeve(rename = "e-mail")]
    mail: Option<String>,
    #[sleeve(default)]
    visits: u64,
    is_admin: bool,
    r#type: Kind,
}

#[derive(FromReply, ToArg, Debug, Clone, Copy, PartialEq)]
enum Kind {
    #[sleeve(rename = "a person")]
    Person = 7,
    Robot,
}

#[derive(FromReply, ToArg, Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Id(pub u64);

/// Runs a check with a client of each protocol.
fn in_both_protocols(check: impl Fn(&Client)) {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let server = Client::embedded();
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
        check(&Client::connect_with(Config::new(endpoint).protocol(protocol)).unwrap());
    }
}

fn ann() -> User {
    User { name: "Ann".into(), mail: None, visits: 3, is_admin: true, r#type: Kind::Person }
}

#[test]
fn a_struct_comes_back_from_a_hash_a_row_and_a_stream() {
    in_both_protocols(|client| {
        client.hset("user", ann()).wait().unwrap();
        client.hset("user", ("later", "a field that the struct has not got")).wait().unwrap();
        assert_eq!(client.hgetall::<User>("user").wait(), Ok(ann()));
        assert_eq!(client.hgetall::<Option<User>>("nobody").wait(), Ok(None));
        assert_eq!(client.hmget::<Row<User>>("user", User::NAMES).wait(), Ok(Row(ann())));
        assert_eq!(client.hmget::<Option<Row<User>>>("nobody", User::NAMES).wait(), Ok(None));
        client.xadd("log", ann()).wait().unwrap();
        let entries: Vec<(String, User)> = client.xrange("log", "-", "+").wait().unwrap();
        assert_eq!(entries[0].1, ann());
        let read: HashMap<String, Vec<(String, User)>> = client.xread("log", "0").wait().unwrap();
        assert_eq!(read["log"][0].1, ann());
    });
}

#[test]
fn a_none_field_does_not_travel() {
    let client = Client::embedded();
    client.hset("user", ann()).wait().unwrap();
    assert_eq!(User::NAMES, ["name", "e-mail", "visits", "is_admin", "type"]);
    assert_eq!(client.hkeys::<Vec<String>>("user").wait().unwrap(), ["name", "visits", "is_admin", "type"]);
    let mail = Some("ann@example.org".to_owned());
    client.hset("user", User { mail: mail.clone(), ..ann() }).wait().unwrap();
    assert_eq!(client.hget::<Option<String>>("user", "e-mail").wait(), Ok(mail));
}

#[test]
fn a_missing_field_is_a_default_none_or_an_error_that_names_it() {
    let client = Client::embedded();
    client.hset("user", [("name", "Ann"), ("is_admin", "0"), ("type", "Robot")]).wait().unwrap();
    let read: User = client.hgetall("user").wait().unwrap();
    assert_eq!((read.visits, read.mail, read.r#type), (0, None, Kind::Robot));
    client.hdel("user", "is_admin").wait().unwrap();
    let missing = "User.is_admin: it is missing (make it an Option, or say #[sleeve(default)])";
    let error = client.hgetall::<User>("user").wait().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conversion, missing));
    let error = client.hmget::<Row<User>>("user", User::NAMES).wait().unwrap_err();
    assert_eq!(error.message(), missing);
    let nobody = client.hgetall::<User>("nobody").wait().unwrap_err();
    let why = "User: there are no fields, as for a key that is missing (ask for an Option<User> to allow it)";
    assert_eq!(nobody.message(), why);
}

#[test]
fn a_wrong_value_names_the_struct_and_the_field() {
    let client = Client::embedded();
    client.hset("user", ann()).wait().unwrap();
    let said = |field: &str, value: &str| {
        client.hset("user", (field, value)).wait().unwrap();
        client.hgetall::<User>("user").wait().unwrap_err().message().to_owned()
    };
    assert_eq!(said("type", "cat"), "User.type: Kind: expected one of \"a person\", \"Robot\", got the string \"cat\"");
    assert_eq!(said("visits", "-1"), "User.visits: expected u64, an integer from 0 to 18446744073709551615, got -1");
    let short = client.hmget::<Row<User>>("user", "name").wait().unwrap_err();
    assert_eq!(short.message(), "User: expected 5 fields in a row, got 1");
    client.set("text", "x").wait().unwrap();
    assert!(client.get::<User>("text").wait().unwrap_err().message().starts_with("User: expected a map of its fields"));
    assert_eq!(client.hgetall::<User>("text").wait().unwrap_err().code(), Some("WRONGTYPE"));
    let odd = client.eval::<User>("return {'name', 'Ann', 'visits'}", (), ()).wait().unwrap_err();
    assert_eq!(odd.message(), "User: the last of its fields has a name and no value");
    let nested = client.eval::<User>("return {{'name', 'Ann'}, {'visits'}}", (), ()).wait().unwrap_err();
    assert_eq!(nested.message(), "User: expected a field's name and value, got an array of 1");
}

#[derive(ToArgs)]
struct Tagged {
    tags: Vec<&'static str>,
}

#[test]
fn a_field_has_one_value() {
    let client = Client::embedded();
    let error = client.hset("post", Tagged { tags: vec!["a", "b"] }).wait().unwrap_err();
    let why = "Tagged.tags: it would be 2 values, and a field has one value; JSON holds several";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Usage, why));
    assert_eq!(client.exists("post").wait(), Ok(0));
}

#[test]
fn a_tuple_struct_is_its_field() {
    let client = Client::embedded();
    client.set(Id(7), Id(8)).wait().unwrap();
    assert_eq!(client.get::<Id>(7).wait(), Ok(Id(8)));
    assert_eq!(client.get::<Option<Id>>(9).wait(), Ok(None));
    client.sadd("ids", [Id(1), Id(2)]).wait().unwrap();
    let ids: std::collections::HashSet<Id> = client.smembers("ids").wait().unwrap();
    assert_eq!(ids, [Id(1), Id(2)].into());
    client.set("text", "x").wait().unwrap();
    let error = client.get::<Id>("text").wait().unwrap_err();
    assert_eq!(error.message(), "Id: expected an integer, got the string \"x\"");
}

/// A struct with every part of a declaration that the derives have to skip or to repeat.
#[derive(FromReply, ToArgs, Debug, PartialEq)]
pub(crate) struct Generic<'a, T: Clone + PartialOrd<T> = u8, const N: usize = 2>
where
    T: Default,
{
    /// Documented.
    #[sleeve(default)]
    pub(crate) values: Option<T>,
    #[sleeve(rename = "first,\"second\"", default)]
    pub either: Either<(u8, T), fn(T) -> u8>,
    #[sleeve(default)]
    pub text: Cow<'static, str>,
    #[sleeve(default)]
    pub marked: Marked<'a, N>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Either<A, B>(Option<String>, std::marker::PhantomData<(A, B)>);

impl<A, B> Default for Either<A, B> {
    fn default() -> Self {
        Self(None, std::marker::PhantomData)
    }
}

impl<A, B> FromReply for Either<A, B> {
    fn from_reply(frame: sleeve::Frame<'_>) -> Result<Self, sleeve::Error> {
        String::from_reply(frame).map(|text| Self(Some(text), std::marker::PhantomData))
    }
}

impl<A, B> ToArgs for Either<A, B> {
    fn write_to(&self, request: &mut sleeve::Request) {
        request.arg(&self.0);
    }
}

#[derive(FromReply, ToArgs, Debug, Default, PartialEq)]
pub(crate) struct Marked<'a, const N: usize>(Phantom<'a, [u8; N]>);

#[derive(Debug, PartialEq)]
pub(crate) struct Phantom<'a, T>(std::marker::PhantomData<&'a T>);

impl<T> Default for Phantom<'_, T> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<T> FromReply for Phantom<'_, T> {
    fn from_reply(_frame: sleeve::Frame<'_>) -> Result<Self, sleeve::Error> {
        Ok(Self(std::marker::PhantomData))
    }
}

impl<T> ToArgs for Phantom<'_, T> {
    fn write_to(&self, _request: &mut sleeve::Request) {}
}

macro_rules! declared {
    ($name:ident { $($field:ident: $type:ty),* }) => {
        #[derive(FromReply, ToArgs, Debug, PartialEq)]
        struct $name { $($field: $type),* }
    };
}

declared!(ByMacro { left: i64, right: Option<i64> });

#[test]
fn every_form_of_a_declaration_is_read() {
    let client = Client::embedded();
    let either = Either(Some("or".to_owned()), std::marker::PhantomData);
    let generic = Generic::<'static, u8> {
        values: Some(7),
        either,
        text: Cow::Borrowed("text"),
        marked: Marked(Phantom(std::marker::PhantomData)),
    };
    client.hset("generic", &generic).wait().unwrap();
    assert_eq!(client.hgetall::<Generic<'static>>("generic").wait(), Ok(generic));
    let names: Vec<String> = client.hkeys("generic").wait().unwrap();
    assert_eq!(names, ["values", "first,\"second\"", "text"]);
    client.hset("made", ByMacro { left: 1, right: None }).wait().unwrap();
    assert_eq!(client.hgetall::<ByMacro>("made").wait(), Ok(ByMacro { left: 1, right: None }));
}

#[derive(FromReply)]
struct Named {
    anything: Value,
    pairs: HashMap<String, i64>,
}

#[test]
fn fields_hold_any_kind_of_reply() {
    let client = Client::embedded();
    let script = "return {'pairs', {'a', 1, 'b', 2}}";
    let named: Named = client.eval(script, (), ()).wait().unwrap();
    assert_eq!((named.anything, named.pairs["b"]), (Value::Nil, 2));
}
