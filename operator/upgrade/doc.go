// Package upgrade decides whether a cluster may go to another version, in what order its
// components take new pod templates, and when each of many clusters takes its turn. Decide and
// CheckVersions are pure; Turns has the only state, which is made anew when an operator starts.
//
// Rules that every plan keeps:
//
//	U1  Components take templates in order: etcd, nodes, routers, Envoy. A later one waits
//	    until the pods of all earlier ones run from theirs, and for another image until they
//	    are ready, too: what a pod that fails has to do with another setting, nobody knows.
//	U2  A component that does not serve with the template it has waits for nobody: the new
//	    one may be what mends it.
//	U3  No component takes a template while the version is refused: a step back over a
//	    minor version, whose files older programs may not read, or over more than one at a
//	    time, of which nobody has tried whether they work together.
//	U4  What a new operator changes reaches one cluster at a time, with a pause between: if
//	    it does harm, the first cluster shows it.
package upgrade
