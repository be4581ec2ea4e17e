package mesh

import (
	"errors"
	"sync"
)

// Pool keeps one Mesh for each cluster, for as long as it is reached in the same way. It
// is safe for concurrent use, but for calls about one cluster at a time.
type Pool struct {
	open Opener
	mu   struct {
		sync.Mutex
		held map[string]held // by key; there are as many as clusters
	}
}

type held struct {
	target Target
	mesh   Mesh
}

// NewPool makes an empty Pool.
func NewPool(open Opener) *Pool {
	p := &Pool{open: open}
	p.mu.held = map[string]held{}
	return p
}

// Get returns the Mesh of a cluster, opened anew if it is to be reached in another way.
// Errors: those of the Opener.
func (p *Pool) Get(key string, target Target) (Mesh, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, open := p.mu.held[key]
	if open && is.target == target {
		return is.mesh, nil
	}
	next, err := p.open(target)
	if err != nil {
		return nil, err
	}
	p.mu.held[key] = held{target, next}
	if open {
		// What the old connections say at their end is of no use to anybody.
		_ = is.mesh.Close()
	}
	return next, nil
}

// Drop closes the Mesh of a cluster, if there is one.
func (p *Pool) Drop(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, open := p.mu.held[key]
	if !open {
		return nil
	}
	delete(p.mu.held, key)
	return is.mesh.Close()
}

// Close closes all.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var problems []error
	for key, is := range p.mu.held {
		problems = append(problems, is.mesh.Close())
		delete(p.mu.held, key)
	}
	return errors.Join(problems...)
}
