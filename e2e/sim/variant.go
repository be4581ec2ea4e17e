package sim

// Variant leaves out a rule that the cluster needs. Each must be caught.
type Variant uint8

// The variants. Sound leaves nothing out.
const (
	Sound             Variant = iota
	ReadUnconfirmed           // a leader answers reads without ReadIndex
	AnswerEarly               // a write is answered when it is proposed
	ApplyEarly                // a leader applies what it appends
	VoteWithoutTail           // after a power cut in interval mode a node goes on with its raft ids
	RaftIDTwice               // a node forgets which of its raft ids are spent
	BatchIDsInMemory          // the table of batch ids is not part of the applied state
	WitnessServes             // a witness answers reads from what it has
	DropOnMap                 // data goes as soon as the map does not name it, which a deposed leader may have written
	EpochsGoBack              // an older map is adopted
	LateBeforeSync            // messages that rest on the log are sent before it is written
	DeleteWithoutID           // a repeated delete is a new one
	BatchIDsAhead             // batch ids in a checkpoint are newer than its applied index
	ReadBeforeApplied         // a confirmed read does not wait for what is applied
	EraIgnored                // a node takes ids of series from an era that has ended
	DeleteUnconfirmed         // a delete looks for its series without ReadIndex
	StatesNotHeld             // groups go on before their states are durable
	variants
)

// String returns the variant's name.
func (v Variant) String() string {
	return [...]string{"Sound", "ReadUnconfirmed", "AnswerEarly", "ApplyEarly", "VoteWithoutTail", "RaftIDTwice",
		"BatchIDsInMemory", "WitnessServes", "DropOnMap", "EpochsGoBack", "LateBeforeSync",
		"DeleteWithoutID", "BatchIDsAhead", "ReadBeforeApplied", "EraIgnored", "DeleteUnconfirmed",
		"StatesNotHeld"}[v]
}
