// Package scantest holds a slow and obvious scan.Source in memory and the tests
// that every scan.Source has to pass. An implementation calls RunSourceTests
// from its own tests; a query language uses Memory as the storage of its tests.
package scantest
