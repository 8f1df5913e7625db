//! Bitmap commands: bits and integers of any width inside strings.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! bitmap_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

BitCount "bitcount", Bitmap, arity -2, since "2.6.0"
    [READONLY] [BITMAP]
    keys (1; RO ACCESS)
    summary "Counts the bits that are set in a key's string or in a range of it."
    complexity "O(N)"
    grammar "key [range=<index=<start:integer end:integer [index_unit=<BYTE|BIT>@7.0.0]>|start:integer@8.0.0>]";

BitField "bitfield", Bitmap, arity -2, since "3.2.0"
    [WRITE DENYOOM] [BITMAP]
    keys (1; RW ACCESS UPDATE VARIABLE_FLAGS; "This command allows both access and modification of the key")
    summary "Reads, writes and counts up integers of any width at any bit offset of a key's string."
    complexity "O(1) for each subcommand specified"
    grammar "key [operation=<GET encoding_offset=<encoding offset:integer>|write=<[OVERFLOW \
        wrap_sat_fail=<WRAP|SAT|FAIL>] write_operation=<SET encoding_offset_value=<encoding offset:integer \
        value:integer>|INCRBY encoding_offset_increment=<encoding offset:integer increment:integer>>>>...]";

BitFieldRo "bitfield_ro", Bitmap, arity -2, since "6.0.0"
    [READONLY FAST] [BITMAP]
    keys (1; RO ACCESS)
    summary "Reads integers of any width at any bit offset of a key's string."
    complexity "O(1) for each subcommand specified"
    grammar "key [GET encoding_offset=<encoding offset:integer>...+]";

BitOp "bitop", Bitmap, arity -4, since "2.6.0"
    [WRITE DENYOOM] [BITMAP]
    keys (2; OW UPDATE) (3 to -1 step 1; RO ACCESS)
    summary "Combines the strings at several keys bit by bit and stores the result."
    complexity "O(N)"
    grammar "operation=<AND|OR|XOR|NOT|DIFF@8.2.0|DIFF1@8.2.0|ANDOR@8.2.0|ONE@8.2.0> destkey:key key#1...";

BitPos "bitpos", Bitmap, arity -3, since "2.8.7"
    [READONLY] [BITMAP]
    keys (1; RO ACCESS)
    summary "Finds the first bit that is set, or clear, in a key's string or in a range of it."
    complexity "O(N)"
    grammar "key bit:integer [index=<start:integer [end_index=<end:integer [index_unit=<BYTE|BIT>@7.0.0]>]>]";

GetBit "getbit", Bitmap, arity 3, since "2.2.0"
    [READONLY FAST] [BITMAP]
    keys (1; RO ACCESS)
    summary "Gives one bit of a key's string."
    complexity "O(1)"
    grammar "key offset:integer";

SetBit "setbit", Bitmap, arity 4, since "2.2.0"
    [WRITE DENYOOM] [BITMAP]
    keys (1; RW ACCESS UPDATE)
    summary "Sets or clears one bit of a key's string and gives the bit before."
    complexity "O(1)"
    grammar "key offset:integer value:integer";

    } };
}
