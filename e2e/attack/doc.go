// Package attack attacks the real binary, as a stranger and as a user without rights, while
// a writer and a reader go about their business, and says what fell.
//
// # Scenarios
//
//	storms       malformed input on every port: random, cut, huge, deep, slow, half open, many
//	bombs        small requests that ask for much: compression, symbols of remote write, JSON,
//	             PromQL, InfluxQL, OpenTSDB, regular expressions, queries of everything
//	endpoints    each line of testdata/endpoints.txt, which lists what the product registers,
//	             as nobody, another tenant, a reader and a writer
//	forgeries    tokens and certificates that were made up, changed, taken back or of another
//	             authority; guessing of passwords from many addresses
//	pages        requests as pages of other sites make a browser send them; foreign Host
//	inside       storms on the ports within a cluster, and its calls by a stranger
//
// They run against a server with users, one without, and a cluster.
//
// # What must hold throughout
//
// The server does not end or restart; it stays within a control group of 512 MiB; every write
// and read of the good clients is served, and reads see what was acknowledged; it ends in
// its time after SIGTERM, whatever runs; nothing that the attacker receives holds one of the
// secrets that the victim's data, names and queries are made of; and the victim's data are
// unchanged.
//
// # Running
//
//	go test ./e2e/attack                          about two minutes on two cores
//	go test ./e2e/attack -args -long              longer storms, and the P99 of the good
//	                                              clients within three times that of calm
//	go test ./e2e/attack -args -seed 42           what is sent again as it was sent then
//
// Each run prints its seed. What a machine does not let the attack do is on the list in
// skips_test.go with the reason, and fails where it is not.
package attack
