// Package gguf reads GGUF files: metadata, the table of tensors, and their bytes.
//
// Promises: Open reads headers only, of all parts, and validates the whole before
// it returns; every length is checked against the file before anything is
// allocated. Versions 2 and 3 and both byte orders are read; what is unknown is
// listed by its number and never guessed. Errors are one line with the file, the
// key or tensor and the reason.
//
//	+---------+---------+---------+----------+----------+---------+---------+------+
//	| "GGUF"  | version | tensors | metadata | metadata | tensor  | padding | data |
//	| 4 bytes | u32     | u64     | u64      | pairs    | table   | to the  |      |
//	|         |         | count   | count    |          |         | alignment      |
//	+---------+---------+---------+----------+----------+---------+---------+------+
package gguf
