//! Records in SQLite, trees and files in an object store.
