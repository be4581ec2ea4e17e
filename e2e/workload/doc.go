// Package workload makes the data that measurements write: devices with ten
// sensors each, whose values have the shapes that real sensors have, and request
// bodies of them in line protocol and in OpenTSDB's put lines.
//
// Everything is a pure function of a seed, so that what is stored can be checked
// against what was made, and every server gets the same bytes.
package workload
