package sim

// task is a procedure of the product that waits in its middle. It has a goroutine of its own,
// of which the world waits until it waits or ends: never do two run at once.
type task struct{ in, out chan struct{} }

// start runs a task until it waits or ends.
func (w *World) startTask(run func()) {
	t := &task{make(chan struct{}), make(chan struct{})}
	go func() {
		<-t.in
		run()
		t.out <- struct{}{}
	}()
	w.resume(t)
}

func (w *World) resume(t *task) {
	before := w.current
	w.current = t
	t.in <- struct{}{}
	<-t.out
	w.current = before
}

// waitFor runs the world until the waker that arrange is given was called, or the
// process is dead. It is called in a task.
func (p *process) waitFor(arrange func(wake func())) error {
	if p.dead {
		return errDead
	}
	w, t, at, woken := p.world, p.world.current, p.waker, false
	p.waker++
	wake := func() {
		if !woken {
			woken = true
			w.after(0, func() { p.evenDead(func() { w.resume(t) }) })
		}
	}
	p.wakers[at] = wake
	arrange(wake)
	t.out <- struct{}{}
	<-t.in
	if delete(p.wakers, at); p.dead {
		return errDead
	}
	return nil
}

// evenDead is run for what a dead process has to end, too.
func (p *process) evenDead(do func()) {
	if p.dead {
		do()
		return
	}
	if p.pausedUntil > p.world.now {
		p.world.after(p.pausedUntil-p.world.now, func() { p.evenDead(do) })
		return
	}
	do()
}

func (p *process) sleep(delay int64) error {
	return p.waitFor(func(wake func()) { p.world.after(delay, wake) })
}

// task begins a procedure of the product, unless the shard has it already.
func (p *process) task(what string, shard uint16, run func()) {
	name := taskName{what, shard}
	if p.busy[name] {
		return
	}
	p.busy[name] = true
	p.after(p.world.between(10, 1000), func() {
		p.tasks++
		p.world.startTask(func() {
			run()
			p.busy[name] = false
			p.tasks--
			p.closeIfEnded()
		})
	})
}

type taskName struct {
	what  string
	shard uint16
}
