// Package upgrade decides whether a cluster may go to another version, in what order its
// components take new pod templates, and when each of many clusters takes its turn. Decide and
// CheckVersions are pure; Turns has the only state, which is lost when an operator stops.
//
// Rules that every plan keeps:
//
//	U1  Components take templates in order: etcd, nodes, routers, Envoy. A later one waits
//	    until the pods of all earlier ones run from theirs. For another image it also waits
//	    until they are ready; for another setting it does not, since a pod that fails need
//	    not have to do with it.
//	U2  A component that does not serve with the template it has does not wait: the new
//	    template may be what repairs it. Nodes serve while half of them are ready.
//	U3  No component takes a template while the version is refused: a step back over a
//	    minor version from the newest that has run, whose files older programs may not read, or a step over more than one
//	    at a time, as such versions are not tested together.
//	U4  What a new operator changes reaches one cluster at a time, with a pause between, so
//	    that a change that does harm is seen at the first cluster.
//	U5  While no maintenance window is open, no component that serves takes another template,
//	    unless that presses. A restart that a person asks for is made of the present one.
package upgrade
