// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package supervise starts the sandbox's components as children of one detached
// process, watches them, and ends them. It decides order and fate, never what a
// component is told (internal/plane does).
//
// Invariants: the supervisor holds the directory's lock as long as it lives;
// state.json names every child before anybody is told that it runs; a child
// never outlives the supervisor; nothing is started again in silence: the
// controller is, as a kubelet would, and so is what was killed as a fault, and
// restarts are counted; any other component that dies stays dead and is
// reported by name.
//
// Start reading at Run; faults are in fault.go.
package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// Event is what the supervisor tells `up` while it starts, one JSON line each.
type Event struct {
	Step    string        `json:"step,omitempty"`   // something is done: "etcd ready"
	Elapsed time.Duration `json:"elapsed"`          // since the supervisor began
	Note    string        `json:"note,omitempty"`   // something worth a line
	Up      bool          `json:"up,omitempty"`     // everything is
	Failed  string        `json:"failed,omitempty"` // why nothing is
}

const (
	// startLimit is generous: a laptop that compiles at the same time needs it.
	startLimit   = 3 * time.Minute
	restartDelay = time.Second
)

// Run brings the sandbox up, tells progress about it, and stays until ctx ends.
// Then, or when bringing up fails, everything it started is gone when it returns.
func Run(ctx context.Context, dir plane.Dir, options plane.Options, progress io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the sandbox's own executable: %w", err)
	}
	began := time.Now()
	const attempts = 3
	for attempt := 1; ; attempt++ {
		s := &supervisor{dir: dir, options: options, self: self, began: began, progress: json.NewEncoder(progress), starter: newStarter()}
		err := s.bringUp(ctx)
		if err == nil {
			s.tell(Event{Up: true})
			<-ctx.Done()
			s.tearDown()
			return Remove(dir)
		}
		s.tearDown()
		if removeErr := Remove(dir); removeErr != nil {
			return errors.Join(err, removeErr)
		}
		var died *deathError
		if errors.As(err, &died) && died.lostPort && attempt < attempts && ctx.Err() == nil {
			s.tell(Event{Note: died.name + " lost its port to another process; starting again with other ports"})
			continue
		}
		s.tell(Event{Failed: err.Error()})
		return err
	}
}

type supervisor struct {
	dir      plane.Dir
	options  plane.Options
	self     string
	began    time.Time
	telling  sync.Mutex
	progress *json.Encoder
	starter  *starter
	client   *plane.Client
	plan     *plane.Plan

	parent context.Context // ends when the sandbox shall
	// giveUp ends bringing up, with a reason; after that it has no effect.
	giveUp context.CancelCauseFunc

	mu       sync.Mutex
	state    State
	children []*child
}

type child struct {
	spec   plane.Component
	record Child
	done   chan struct{} // closed when the present process has ended
	told   bool          // it was told to end
}

// deathError is a child's end while the sandbox was starting.
type deathError struct {
	name, report string
	lostPort     bool
}

func (e *deathError) Error() string { return e.report }

func (s *supervisor) tell(e Event) {
	e.Elapsed = time.Since(s.began)
	s.telling.Lock()
	defer s.telling.Unlock()
	// Once `up` has returned nobody listens, which is no error.
	_ = s.progress.Encode(e)
}

func (s *supervisor) bringUp(parent context.Context) error {
	limited, cancel := context.WithTimeoutCause(parent, startLimit,
		fmt.Errorf("the sandbox was not up after %s", startLimit))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(limited)
	defer giveUp(nil)
	s.parent, s.giveUp = parent, giveUp

	if err := s.dir.Prepare(); err != nil {
		return err
	}
	plan, err := plane.Components(s.dir, s.options)
	if err != nil {
		return err
	}
	s.plan = plan
	if s.client, err = plane.NewClient(s.dir, plan.Server); err != nil {
		return err
	}
	me, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	s.state = State{
		Phase: Starting, Supervisor: me, StartedAt: s.began.UTC(), Server: plan.Server, MachinesURL: plan.MachinesURL, AWSURL: plan.AWSURL,
		Kubeconfig: s.dir.Kubeconfig(plane.Admin), Options: s.options,
	}
	if plan.Machines != nil {
		s.state.Journal = s.dir.Journal()
	}

	// The API server waits for etcd by itself; starting both at once hides
	// etcd's start in the API server's.
	var first errorGroup
	first.run(giveUp, func() error { return s.startAndWait(ctx, plan.Etcd) })
	first.run(giveUp, func() error { return s.startAndWait(ctx, plan.APIServer) })
	if err := s.wait(ctx, &first); err != nil {
		return err
	}

	var rest errorGroup
	for _, c := range []plane.Component{plan.ControllerManager, plan.Scheduler, plan.Kwok} {
		rest.run(giveUp, func() error { return s.startAndWait(ctx, c) })
	}
	rest.run(giveUp, func() error {
		if err := s.client.WaitForDefaultAccount(ctx); err != nil {
			return fmt.Errorf("wait for the default service account: %w", err)
		}
		return nil
	})
	if plan.KubeletsAddress != "" {
		if err := s.serveKubelets(); err != nil {
			return err
		}
	}
	if plan.Machines != nil {
		rest.run(giveUp, func() error { return s.startDovetail(ctx) })
	}
	if err := s.wait(ctx, &rest); err != nil {
		return err
	}
	s.mu.Lock()
	s.state.Phase = Ready
	err = s.writeState()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	// A child that died between its last answer and this line told giveUp.
	return context.Cause(ctx)
}

// wait prefers the first cause: when a child dies, every wait for it and for
// those that need it fails as well.
func (s *supervisor) wait(ctx context.Context, g *errorGroup) error {
	err := g.wait()
	var died *deathError
	switch {
	case err == nil:
		return nil
	case s.parent.Err() != nil:
		return errors.New("told to stop while starting")
	case errors.As(context.Cause(ctx), &died):
		return died
	}
	return err
}

// startDovetail is Dovetail's own part: the API and the rights, the simulated
// cloud, the node that nobody bought, the controllers.
func (s *supervisor) startDovetail(ctx context.Context) error {
	if err := s.applyManifests(ctx); err != nil {
		return err
	}
	if err := s.client.WaitForCRDs(ctx); err != nil {
		return err
	}
	s.tell(Event{Step: "manifests applied"})
	if err := s.startAndWait(ctx, *s.plan.Machines); err != nil {
		return err
	}
	if s.options.Base != "" {
		request := map[string]string{"instanceType": s.options.Base, "name": "base-0"}
		if _, err := s.client.SendJSON(ctx, http.MethodPost, s.plan.MachinesURL+"/v1/base-node", request); err != nil {
			return fmt.Errorf("make the node that --base %s asks for: %w", s.options.Base, err)
		}
		s.tell(Event{Step: "base-0 (" + s.options.Base + ") made"})
	}
	if err := s.makeGroups(ctx); err != nil {
		return err
	}
	if s.options.NodePool {
		if err := s.makeNodePool(ctx); err != nil {
			return err
		}
	}
	var controllers errorGroup
	for _, c := range s.plan.Controllers {
		controllers.run(s.giveUp, func() error { return s.startAndWait(ctx, c) })
	}
	return controllers.wait()
}

// makeGroups makes the Auto Scaling groups. Those that kept data have already
// are changed to what is asked for now, but for how many machines they should
// have.
func (s *supervisor) makeGroups(ctx context.Context) error {
	groups, err := plane.ReadGroups(s.options.Groups)
	if err != nil || len(groups) == 0 {
		return err
	}
	var names []string
	for _, g := range groups {
		request := maps.Clone(g.Request)
		request["desiredLeftAsItIs"] = true
		if _, err := s.client.SendJSON(ctx, http.MethodPut, s.plan.AWSURL+"/_aws/groups", request); err != nil {
			return fmt.Errorf("make the Auto Scaling group %q: %w", g.Name, err)
		}
		names = append(names, g.Name)
	}
	s.tell(Event{Step: "Auto Scaling groups " + strings.Join(names, ", ") + " made"})
	return nil
}

// applyManifests applies the API, identity and rights that Dovetail prints.
func (s *supervisor) applyManifests(ctx context.Context) error {
	if err := os.Remove(s.dir.Log("manifests")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear the log of the manifests: %w", err)
	}
	args := []string{"manifests"}
	if s.options.Groups != "" {
		args = append(args, "--group-status") // a controller with discovered groups writes their status
	}
	printed, err := s.output(ctx, "manifests", s.options.Dovetail, args, nil)
	if err != nil {
		return fmt.Errorf("ask %s for its manifests: %w", s.options.Dovetail, err)
	}
	if err := s.apply(ctx, plane.RBAC()+"---\n"+string(printed)); err != nil {
		return fmt.Errorf("apply Dovetail's manifests: %w", err)
	}
	return nil
}

// makeNodePool creates the example NodePool of the cloud.
func (s *supervisor) makeNodePool(ctx context.Context) error {
	printed, err := s.output(ctx, "manifests", s.options.Dovetail, []string{"manifests", "--nodepool", s.options.Cloud}, nil)
	if err != nil {
		return fmt.Errorf("ask %s for an example NodePool: %w", s.options.Dovetail, err)
	}
	if err := s.apply(ctx, string(printed)); err != nil {
		return fmt.Errorf("apply the example NodePool: %w", err)
	}
	s.tell(Event{Step: "NodePool default made"})
	return nil
}

// apply has kubectl, which is this binary, apply YAML documents.
func (s *supervisor) apply(ctx context.Context, documents string) error {
	_, err := s.output(ctx, "manifests", s.self,
		[]string{"--dir", string(s.dir), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"}, strings.NewReader(documents))
	return err
}

// output runs a short-lived helper; what it says on standard error is its log.
func (s *supervisor) output(ctx context.Context, name, exe string, args []string, stdin io.Reader) ([]byte, error) {
	log, err := os.OpenFile(s.dir.Log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, exe, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, log
	cmd.Env, cmd.SysProcAttr = environment(nil), childAttributes()
	if err := s.starter.start(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, errors.New(DeathReport(name, describe(cmd.ProcessState), s.dir.Log(name)))
	}
	return out.Bytes(), nil
}

func (s *supervisor) startAndWait(ctx context.Context, spec plane.Component) error {
	c := &child{spec: spec}
	if err := s.start(ctx, c); err != nil {
		return err
	}
	if err := s.client.WaitHealthy(ctx, spec.Health); err != nil {
		return fmt.Errorf("%s is not ready: %w\nthe end of %s:\n%s", spec.Name, err, s.dir.Log(spec.Name), indent(LogTail(s.dir.Log(spec.Name), 15)))
	}
	s.tell(Event{Step: spec.Name + " ready"})
	return nil
}

// start starts a child, for the first time or again, and records it.
func (s *supervisor) start(ctx context.Context, c *child) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.state.Phase == Stopping || c.told {
		return context.Cause(ctx) // Too late: nobody would end it.
	}
	again := c.done != nil
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !again {
		mode |= os.O_TRUNC
	}
	log, err := os.OpenFile(s.dir.Log(c.spec.Name), mode, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", c.spec.Name, err)
	}
	defer func() { _ = log.Close() }()
	exe := c.spec.Exe
	if exe == "" {
		exe = s.self
	}
	cmd := exec.Command(exe, c.spec.Args...)
	cmd.Dir = string(s.dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env, cmd.SysProcAttr = environment(c.spec.Env), childAttributes()
	if err := s.starter.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.spec.Name, err)
	}
	process, err := identify(cmd.Process.Pid)
	if err != nil {
		// It has ended already, or /proc can't be read; the wait below knows.
		process = Process{PID: cmd.Process.Pid}
	}
	record := Child{Name: c.spec.Name, Process: process, State: Running, Ports: c.spec.Ports, Health: c.spec.Health, StartedAt: time.Now().UTC(), Log: s.dir.Log(c.spec.Name)}
	if again {
		record.Restarts, record.Exit, record.ExitedAt = c.record.Restarts+1, c.record.Exit, c.record.ExitedAt
	} else {
		s.children = append(s.children, c)
	}
	c.record, c.done = record, make(chan struct{})
	go s.watch(cmd, c, c.done)
	return s.writeState()
}

// writeState writes state.json as the children are now. The caller holds mu.
func (s *supervisor) writeState() error {
	s.state.Components = nil
	for _, c := range s.children {
		s.state.Components = append(s.state.Components, c.record)
	}
	return s.state.write(s.dir)
}

// watch waits for a child's end and decides what follows from it.
func (s *supervisor) watch(cmd *exec.Cmd, c *child, done chan struct{}) {
	_ = cmd.Wait() // ProcessState says more than the error.
	exit := describe(cmd.ProcessState)
	now := time.Now().UTC()

	s.mu.Lock()
	record := &c.record
	record.Exit, record.ExitedAt = exit, &now
	restart, delay := c.spec.Restart, restartDelay
	if after, wished := takeComeBack(s.dir, c.spec.Name, record.Process); wished {
		restart, delay = true, after
	}
	switch {
	case c.told || s.state.Phase == Stopping:
		record.State, restart = Stopped, false
	case s.state.Phase == Starting:
		record.State, restart = Exited, false
		log := s.dir.Log(c.spec.Name)
		s.giveUp(&deathError{
			name: c.spec.Name, report: DeathReport(c.spec.Name, exit, log),
			lostPort: strings.Contains(LogTail(log, 40), "address already in use"),
		})
	case restart:
		record.State = Restarting
	default:
		record.State = Exited
	}
	if record.State != Stopped {
		fmt.Fprintf(os.Stderr, "%s %s died: %s\n", now.Format(time.RFC3339Nano), c.spec.Name, exit)
	}
	if err := s.writeState(); err != nil {
		fmt.Fprintf(os.Stderr, "%s %v\n", now.Format(time.RFC3339Nano), err)
	}
	s.mu.Unlock()
	close(done)

	if restart {
		time.AfterFunc(delay, func() {
			if err := s.start(context.Background(), c); err != nil {
				fmt.Fprintf(os.Stderr, "%s restart %s: %v\n", time.Now().UTC().Format(time.RFC3339Nano), c.spec.Name, err)
				s.mu.Lock()
				defer s.mu.Unlock()
				c.record.State = Exited
			}
		})
	}
}

// tearDown ends the children, those first that would otherwise complain that
// the others are gone, and returns when none is left.
func (s *supervisor) tearDown() {
	s.mu.Lock()
	s.state.Phase = Stopping
	children := s.children
	err := s.writeState()
	s.mu.Unlock()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err) // Ending the children matters more.
	}
	for _, tier := range []struct {
		has   func(name string) bool
		grace time.Duration
	}{
		{func(n string) bool { return n == plane.Dovetail || strings.HasPrefix(n, plane.Dovetail+"-") }, 5 * time.Second},
		{func(n string) bool { return n == plane.Machines }, 5 * time.Second},
		{plane.IsKubelet, time.Second},
		{func(n string) bool { return n == plane.Kwok || n == plane.Scheduler || n == plane.ControllerManager }, 2 * time.Second},
		// It would wait for its last watcher; etcd has what it wrote.
		{func(n string) bool { return n == plane.APIServer }, 2 * time.Second},
		{func(n string) bool { return n == plane.Etcd }, 5 * time.Second},
	} {
		var ending sync.WaitGroup
		for _, c := range children {
			if tier.has(c.spec.Name) {
				ending.Go(func() { s.end(c, tier.grace) })
			}
		}
		ending.Wait()
	}
}

func (s *supervisor) end(c *child, grace time.Duration) {
	s.mu.Lock()
	c.told = true
	process, done := c.record.Process, c.done
	s.mu.Unlock()
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, time.Minute}} {
		select {
		case <-done:
			return
		default:
		}
		// The child is ours and not yet waited for, so the id is still its own.
		_ = syscall.Kill(-process.PID, step.signal)
		select {
		case <-done:
			return
		case <-time.After(step.wait):
		}
	}
	fmt.Fprintf(os.Stderr, "%s (process %d) did not end\n", c.spec.Name, process.PID)
}

func identify(pid int) (Process, error) {
	started, err := startTime(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Process{PID: pid, Started: started}, nil
}

func describe(state *os.ProcessState) string {
	if state == nil {
		return "never ran"
	}
	return state.String()
}
