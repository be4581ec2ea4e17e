// Package budget bounds the bytes that the requests of a process hold in memory, and
// shares them out fairly between those who send them.
//
// A Pool is one bound. Each request takes a Lease of it, acquires bytes before it
// allocates them, and releases what it holds when it ends. A Lease is charged to its
// Owner: to the address that the request comes from, and to the tenant whom it belongs
// to, as far as these are known.
//
// # Fairness
//
// An owner may hold a multiple of what is left free (dynamic thresholds: Choudhury and
// Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998). An
// address may hold up to four times what is free, a tenant as much as is free. So one
// address alone takes at most 4/5 of the pool and one tenant alone at most half: a fifth
// of what was free is left for whoever comes next. Nothing is taken back from those who
// came first, but they get no more before they are below their share, so that k addresses
// that take all they can come to leave 1/(1+4k) of the pool.
// A request that is alone in the pool may take all of it, as a large one has to end some
// time.
//
// What does not fit waits, for a bounded time. Bytes that are released go to the waiting
// request whose owner holds least, so that a small request does not wait behind all those
// of a busy neighbour; of one owner's to the one that holds most already, as it ends soonest,
// and then in order of arrival. A newcomer passes those who wait if none of them is of its
// owner.
//
// Requests that grow hold bytes while they wait for more. Where all that hold bytes of an owner,
// or of the pool, do so, nothing would be released before their time is up, and whoever comes
// next waits behind them: the one that holds least is refused at once, until another can go on.
package budget
