// Package etcd decides who is a member of the etcd that the operator runs, and has the
// client that makes it so. Decide is pure: it looks at Facts and returns a Plan, of which
// each action can be made on its own and made again. Nothing is remembered in between.
//
// Rules that every plan keeps:
//
//	E1  A new etcd is made once, of as many members as its StatefulSet was made with.
//	    Whatever the spec says meanwhile, it grows only when it runs.
//	E2  It grows and heals one member at a time, and only while all other voters, or
//	    more than half of all if one is lost, are healthy. It never shrinks.
//	E3  A member whose data is lost, or on a machine that is, is removed before another
//	    takes its place, and its volume goes before that one starts: etcd must never see
//	    a member that has forgotten what it has promised.
//	E4  A pod that finds its volume empty cannot start unless it is its turn: but while it
//	    is to join, Plan.Meet names a member that there is not, and etcd refuses.
//	    A machine that is deleted may join again, with its volumes: it counts as gone for good
//	    only when that has lasted as long as a silent one's silence would, or by its taint.
//	    An etcd of one member begins anew when its claim is new, which is when its volume or
//	    machine was lost for good; one of several never does.
//	E5  A pod is restarted only while all other members are healthy, one at a time; one that
//	    does not run at any time. While no pod gets a certificate before that, those on
//	    machines that say nothing do not count, although the majority may be away for as long
//	    as the restart takes.
//	E6  When no majority can come back, because volumes or machines of the members are
//	    gone for good, or when a person says so, a new etcd takes the place of the old one,
//	    which has not answered for long then. It begins only when the nodes can give it the
//	    shard map. First another generation is written down, which is in the token of the
//	    new one, so that members of the two never talk to each other; then all pods and
//	    claims of the old one go; the new one is made when none is left, of one member, and
//	    grows. If the old one answers before it is gone, it stays.
//	E7  While no maintenance window is open, a member that runs is restarted only when a
//	    person asks for that.
package etcd
