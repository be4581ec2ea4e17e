// Package admission keeps admission control of queries: it lets them in, bounds what they may cost,
// counts what they read and hold, and remembers the slow ones. All query languages use
// the one Controller of their process, so its bounds hold for all together.
//
// A front end begins each query and ends it:
//
//	ctx, entry, err := l.Begin(ctx, admission.Query{Dialect: "promql", Text: text})
//	if err != nil { … }               // *BusyError: 503, try again later
//	defer func() { entry.End(err) }() // err of the answer
//
// and reads through Controller.Source, which charges scans to the entry of their context.
// Memory that the front end itself holds is charged with Take and given back with Give.
package admission
