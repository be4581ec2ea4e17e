// Package command is `tickmesh drain-envoy`, which waits in an Envoy's pod for the signal to end and
// then drains the Envoy beside it.
package command
