// Package archive keeps samples in a folder of checksummed files: a backup. What was
// written comes back bit by bit, NaN with its payload too. FORMAT.md has the bytes.
//
// A Writer adds units, each the samples of one metric in a range of time, to files. A
// file appears under its name, and in the manifest, when it is complete and safe on
// disk. So a folder whose writer was killed has whole files only, and another Writer
// goes on after them.
package archive
