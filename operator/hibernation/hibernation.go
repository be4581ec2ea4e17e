// Package hibernation decides which components of a cluster have pods while it goes to sleep, sleeps
// and wakes. It is pure.
//
// Rules that every plan keeps:
//
//	H1  Components stop in the reverse of the order in which they start: Envoy, routers, nodes,
//	    etcd. One stops when no pod of those after it is left, so that no request is cut off and
//	    no node is without etcd. It stops by its number of pods, as which volumes stay.
//	H2  A backup or restore that runs ends first. Until a component stops the cluster is kept as
//	    one that is awake: what it waits for may need a node that is lost.
//	H3  Components start in order, each when those before it serve. One that does not serve in
//	    time holds nobody up: nodes have to run so that a lost etcd can be made anew.
//	H4  What is wanted can change at any moment: what is there is all that is gone by.
package hibernation

import (
	"fmt"
	"time"
)

// StepWaitMax is how long a component that wakes waits for each before it.
const StepWaitMax = 2 * time.Minute

// Stage is how far a cluster is.
type Stage string

// The stages. Awake: nothing of this is going on.
const (
	Awake         Stage = ""
	FallingAsleep Stage = "Hibernating"
	Asleep        Stage = "Hibernated"
	Waking        Stage = "Waking"
)

// Component is the observed state of a component of a cluster.
type Component struct {
	Name    string
	Exists  bool
	Stopped bool // it is to have no pods now
	Pods    int  // that are there, but for those whose machine cannot say that they have ended
	Serving bool // those that come after it have what they need of it
}

// Facts are the input of Decide.
type Facts struct {
	Wanted     bool
	Components []Component // in the order in which they start
	// Busy describes what has to end first; empty: nothing.
	Busy string
	// WakingFor is how long the cluster has been waking.
	WakingFor time.Duration
}

// Plan describes which components are to have no pods.
type Plan struct {
	Stage   Stage
	Stopped map[string]bool
	Waiting string // for what, as a part of a sentence; empty: for nothing
	begun   bool   // a component is stopped
}

// Rests reports whether the cluster is kept as it is, as it sleeps or has begun to fall asleep.
func (p *Plan) Rests() bool { return p.Stage == Asleep || p.Stage == FallingAsleep && p.begun }

// Decide returns the Plan that keeps the rules H1 to H4.
func Decide(f Facts) Plan {
	if f.Wanted {
		return f.sleep()
	}
	return f.wake()
}

func (f *Facts) sleep() Plan {
	plan := Plan{Stage: FallingAsleep, Stopped: map[string]bool{}}
	for i := range f.Components {
		plan.begun = plan.begun || f.Components[i].Stopped
	}
	if f.Busy != "" && !plan.begun {
		plan.Waiting = f.Busy
		return plan
	}
	for i := len(f.Components) - 1; i >= 0; i-- {
		c := &f.Components[i]
		switch {
		case plan.Waiting == "":
			plan.Stopped[c.Name] = true
			if c.Pods > 0 || c.Exists && !c.Stopped {
				plan.Waiting = fmt.Sprintf("%s ends, %d pods are left", c.Name, c.Pods)
			}
		case c.Stopped:
			plan.Stopped[c.Name] = true
		}
	}
	if plan.Waiting == "" {
		plan.Stage = Asleep
	}
	return plan
}

func (f *Facts) wake() Plan {
	plan := Plan{Stopped: map[string]bool{}}
	for i := range f.Components {
		c := &f.Components[i]
		if c.Stopped {
			plan.Stage = Waking
		}
		overdue := f.WakingFor >= time.Duration(i)*StepWaitMax
		if c.Stopped && plan.Waiting != "" && !overdue {
			plan.Stopped[c.Name] = true
		}
		if plan.Waiting == "" && (c.Stopped || !c.Serving) {
			plan.Waiting = c.Name + " is starting"
		}
	}
	if plan.Stage == Awake {
		plan.Waiting = ""
	}
	return plan
}
