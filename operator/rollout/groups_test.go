package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setModel is a group of nodes and its StatefulSet.
type setModel struct {
	count    int  // nodes that are asked for
	leaves   bool // it is not asked for any more
	class    int  // storage class that is asked for
	setClass int  // that the StatefulSet makes claims of
	ending   bool // the StatefulSet is being deleted, and leaves its pods
	replicas int  // below 0: there is no StatefulSet
}

// makesAsked reports whether claims are made of the class that is asked for.
func (s *setModel) makesAsked() bool { return s.replicas < 0 || s.setClass == s.class }

// groupSpan is how many numbers a group has: node 102 is the one with the ordinal 2 of group 1.
const groupSpan = 100

// setNames are those of the StatefulSets of groups. That of the second begins as those of the others do.
var setNames = []string{"demo-node", "demo-node-arm", "demo-node-arm-0"}

func node(number int) string {
	return fmt.Sprintf("%s-%d", setNames[number/groupSpan], number%groupSpan)
}

// numberOf is the reverse of node.
func numberOf(name string) int {
	at := strings.LastIndex(name, "-")
	ordinal, err := strconv.Atoi(name[at+1:])
	if err != nil {
		panic(name)
	}
	return slices.Index(setNames, name[:at])*groupSpan + ordinal
}

func (w *world) set(number int) *setModel { return w.sets[number/groupSpan] }

// numbers returns those of the nodes of all groups, of which each has so many.
func (w *world) numbers(of func(*setModel) int) (numbers []int) {
	for group, set := range w.sets {
		for ordinal := range max(of(set), 0) {
			numbers = append(numbers, group*groupSpan+ordinal)
		}
	}
	return numbers
}

// told returns the numbers of the nodes that StatefulSets are told to have; asked, of those asked for.
func (w *world) told() []int { return w.numbers(func(s *setModel) int { return s.replicas }) }

func (w *world) asked() []int { return w.numbers(func(s *setModel) int { return s.count }) }

func (w *world) isTold(number int) bool { return number%groupSpan < w.set(number).replicas }

func (w *world) isAsked(number int) bool { return number%groupSpan < w.set(number).count }

// isOutdated reports whether a node has a volume of another class than is asked for.
func (w *world) isOutdated(number int) bool {
	claim, set := w.claims[number], w.set(number)
	return claim != nil && claim.class != set.class && !set.leaves
}
