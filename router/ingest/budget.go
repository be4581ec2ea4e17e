package ingest

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// budgetError words an error of a lease for clients: what another try may cure is an
// overload, what none does is a body that is too large.
func budgetError(err error) error {
	if errors.Is(err, budget.ErrTooLarge) {
		return fmt.Errorf("%w: %w (--memory-limit, --in-flight-bytes-max)", refusal.ErrBodyTooLarge, err)
	}
	return refusal.ErrMemory
}

// Budgets are the memory that requests may hold: those that write, and all others. They
// are apart, so that queries do not keep writes out.
type Budgets struct{ Writes, Reads *budget.Pool }

// NewBudgets returns budgets by limits.
func NewBudgets(l Limits) Budgets {
	l.setDefaults()
	return Budgets{Writes: budget.New(l.InFlightBytesMax, l.WriteTimeout), Reads: budget.New(l.ReadsBytesMax, l.WriteTimeout)}
}

// answerBytes is what an answer of Options.Other takes before it streams, or while it
// does: it is held once by its handler, and once on its way.
func (l *Limits) answerBytes() int { return 2 * l.OtherAnswerBytesHeld }
