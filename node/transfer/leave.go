package transfer

import (
	"context"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
)

const (
	questionsMax   = 64
	questionsAsked = 4 // at a time: a member that does not answer must not hold up the others
	questionWait   = 2 * time.Second
)

// askMembers asks one question after the other until ctx ends.
func (s *Service) askMembers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-s.questions.tasks:
			if s.HasLeft(ctx, &q) {
				_ = s.options.Loop.Left(&q) // not heard, it is asked again
			}
			s.questions.done(q.Shard)
		}
	}
}

// HasLeft asks the members whether their group goes on without the replica.
func (s *Service) HasLeft(ctx context.Context, q *commit.Question) bool {
	if s.options.GroupClient == nil {
		return false
	}
	for i := range q.Members {
		if q.Members[i].Node == s.options.Node {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, questionWait)
		view, err := s.options.GroupClient.Group(bounded, q.Members[i].Node, q.Shard)
		cancel()
		if err == nil && q.Gone(&view) {
			return true
		}
	}
	return false
}
