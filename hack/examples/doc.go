// Package examples holds the configurations of hack/examples to what can be checked without the programs, which e2e/examples
// starts.
package examples
