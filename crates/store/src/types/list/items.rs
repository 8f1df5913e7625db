//! The elements of a list one after the other, forwards or backwards, through all packs.
//!
//! They borrow from the list and copy nothing. Plain data, usable from any thread.

use std::collections::vec_deque;

use super::node::Node;
use crate::packed::listpack::Elements;
use crate::value::ValueRef;

/// Elements in order, through all packs.
#[derive(Clone)]
pub struct Items<'a> {
    here: Elements<'a>,
    nodes: vec_deque::Iter<'a, Node>,
}

impl<'a> Items<'a> {
    /// Goes on with the remaining elements of one pack and the nodes behind it.
    pub(crate) fn new(here: Elements<'a>, nodes: vec_deque::Iter<'a, Node>) -> Self {
        Self { here, nodes }
    }

    /// Returns an iterator over the elements of one pack.
    pub(crate) fn of(here: Elements<'a>) -> Self {
        Self { here, nodes: vec_deque::Iter::default() }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(value) = self.here.next() {
                return Some(value);
            }
            self.here = self.nodes.next()?.as_packed().iter();
        }
    }
}

/// Elements from a place back to the first, through all packs.
#[derive(Clone)]
pub struct ItemsBack<'a> {
    here: Elements<'a>,
    nodes: vec_deque::Iter<'a, Node>,
}

impl<'a> ItemsBack<'a> {
    /// Goes on with the remaining elements of one pack and the nodes before it.
    pub(crate) fn new(here: Elements<'a>, nodes: vec_deque::Iter<'a, Node>) -> Self {
        Self { here, nodes }
    }

    /// Returns an iterator over the elements of one pack, backwards.
    pub(crate) fn of(here: Elements<'a>) -> Self {
        Self { here, nodes: vec_deque::Iter::default() }
    }
}

impl<'a> Iterator for ItemsBack<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(value) = self.here.next_back() {
                return Some(value);
            }
            self.here = self.nodes.next_back()?.as_packed().iter();
        }
    }
}
