// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command reaction measures reaction times on a sandbox whose machines boot and images load immediately, and prints JSON:
//
//   - one pending pod on an idle cluster, from its creation to its NodeClaim
//   - the same on Auto Scaling groups of the simulated AWS, to SetDesiredCapacity in the journal of that AWS
//   - a burst of 1,000 pods until all run, and the floor: the same burst onto existing nodes without an autoscaler, measured in the same run
//
// All measurements use separate watches, so each figure includes the latency of a watch. `make bench-reaction` runs it from the root of the
// repository, after `make build`. Start reading at main.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Result is what is printed.
type Result struct {
	CPUs       int        `json:"cpus"`
	SinglePod  SinglePod  `json:"singlePod"`
	NodeGroups NodeGroups `json:"nodeGroups"`
	Burst      Burst      `json:"burst"`
}

// SinglePod is one pending pod on an idle cluster, several times.
type SinglePod struct {
	Runs                 int       `json:"runs"`
	CreationToClaimP50Ms float64   `json:"creationToNodeClaimP50Milliseconds"`
	CreationToClaimP99Ms float64   `json:"creationToNodeClaimP99Milliseconds"`
	CreationToRunP50Ms   float64   `json:"creationToRunningP50Milliseconds"`
	CreationToRunP99Ms   float64   `json:"creationToRunningP99Milliseconds"`
	Controller           Resources `json:"controller"`
}

// Burst is many pods at once.
type Burst struct {
	Pods           string    `json:"pods"`
	FloorSeconds   float64   `json:"floorSeconds"` // all Running on nodes made beforehand, without an autoscaler
	FloorNodes     string    `json:"floorNodes"`
	Seconds        float64   `json:"seconds"` // all Running with Dovetail, from nothing
	Ratio          float64   `json:"ratio"`
	FirstClaimS    float64   `json:"firstNodeClaimSeconds"`
	LastClaimS     float64   `json:"lastNodeClaimSeconds"`
	LastBoundS     float64   `json:"lastBoundSeconds"`
	Machines       int       `json:"machines"`
	USDPerHour     float64   `json:"usdPerHour"`
	Controller     Resources `json:"controller"`
	FloorAttempts  []float64 `json:"floorAttemptsSeconds"`
	BurstAttempts  []float64 `json:"attemptsSeconds"`
	MachinesBought []string  `json:"machinesBought"`
	FloorAccount   *Account  `json:"floorAccount"` // of the last floor
	Account        *Account  `json:"account"`
}

// Resources is what the controller's process took while something was measured.
type Resources struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMB     float64 `json:"peakMemoryMB"` // since it started
}

func main() {
	from := flag.String("cloud", "", "aws-groups: measure only Auto Scaling groups of the simulated AWS (default: everything)")
	runs := flag.Int("runs", 30, "number of measurements of a single pod (0: measure only the burst and its floor)")
	repeat := flag.Int("repeat", 1, "number of measurements of the burst and its floor; medians are reported")
	qps := flag.Int("controller-manager-qps", 0, "requests per second of kube-controller-manager in the burst and its floor (0: no limit; its own default is 20)")
	boot := flag.Duration("boot", 0, "boot time of machines in the burst")
	nodes := flag.String("floor-nodes", "60x r5a.12xlarge", "machines created in advance to measure the floor of the burst")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var out any
	var err error
	switch *from {
	case "":
		out, err = measure(ctx, *runs, *repeat, *qps, *boot, *nodes)
	case "aws-groups":
		out, err = onlyGroups(ctx, *runs)
	default:
		err = fmt.Errorf("-cloud %s: use aws-groups or leave it empty", *from)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reaction:", err)
		os.Exit(1)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, "reaction:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs, repeat, qps int, boot time.Duration, floorNodes string) (*Result, error) {
	dir, err := os.MkdirTemp("", "dovetail-reaction-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := &Result{CPUs: runtime.NumCPU()}
	if runs > 0 {
		err = in(ctx, filepath.Join(dir, "single"), func(r *rig) error { return r.single(ctx, runs, &out.SinglePod) })
		if err != nil {
			return nil, fmt.Errorf("single pods: %w", err)
		}
		if err := measureGroups(ctx, dir, max(1, runs/3), &out.NodeGroups); err != nil {
			return nil, fmt.Errorf("node groups: %w", err)
		}
	}
	b := &out.Burst
	b.FloorNodes = floorNodes
	var bursts []Burst
	var pace []string
	if qps > 0 {
		pace = []string{"--controller-manager-qps", strconv.Itoa(qps)}
	}
	for i := range repeat {
		// Alternating, so that what else the machine does weighs on both.
		err = in(ctx, filepath.Join(dir, fmt.Sprint("floor-", i)), func(r *rig) error { return r.floor(ctx, floorNodes, b) }, append(pace, "--no-autoscaler")...)
		if err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		var one Burst
		err = in(ctx, filepath.Join(dir, fmt.Sprint("burst-", i)), func(r *rig) error { return r.burst(ctx, &one) }, append(pace, "--boot", boot.String())...)
		if err != nil {
			return nil, fmt.Errorf("burst: %w", err)
		}
		bursts = append(bursts, one)
		b.BurstAttempts = append(b.BurstAttempts, one.Seconds)
	}
	slices.SortFunc(bursts, func(a, b Burst) int { return cmp.Compare(a.Seconds, b.Seconds) })
	middle := bursts[(len(bursts)-1)/2]
	middle.FloorNodes, middle.FloorAttempts, middle.BurstAttempts, middle.FloorAccount = b.FloorNodes, b.FloorAttempts, b.BurstAttempts, b.FloorAccount
	middle.FloorSeconds = quantile(b.FloorAttempts, 0.5)
	middle.Ratio = round(middle.Seconds / middle.FloorSeconds)
	out.Burst = middle
	return out, nil
}

// rig is a sandbox, and watches of it.
type rig struct {
	s      *sandbox.Sandbox
	begin  time.Time
	events chan event
	pid    int // of the controller
}

// event is a pod or a NodeClaim as a watch told of it.
type event struct {
	at    time.Time
	kind  string
	pod   *corev1.Pod
	claim *karpv1.NodeClaim
	err   error
}

// ownNode is a node that every cluster here has, too small for any pod of what is measured: where there is no node at all,
// kube-scheduler takes that for an error of its own, and looks at a pod again no sooner than after a second.
const ownNode = "t3.nano"

// in measures something in a sandbox of its own.
func in(ctx context.Context, dir string, measure func(*rig) error, flags ...string) (err error) {
	fmt.Fprintf(os.Stderr, "%s: starting a sandbox\n", filepath.Base(dir))
	s, err := sandbox.Up(ctx, dir, append([]string{"--boot", "0", "--pull", "0", "--base", ownNode}, flags...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &rig{s: s, events: make(chan event, 1<<16)}
	if st, err := s.Components(sandbox.Controller); err == nil {
		r.pid = st[0].PID
	}
	if err := r.watch(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: measuring\n", filepath.Base(dir))
	return measure(r)
}

// watch has pods and NodeClaims told. Pods come as protobuf: a burst of them as JSON would take from what is measured.
func (r *rig) watch(ctx context.Context) error {
	config, err := r.s.Config(sandbox.Admin)
	if err != nil {
		return err
	}
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	tell := func(kind string) func(any) {
		return func(object any) {
			if p, ok := object.(*corev1.Pod); ok {
				r.events <- event{at: time.Now(), kind: kind, pod: p}
			}
		}
	}
	_, err = pods.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell("ADDED"), UpdateFunc: func(_, object any) { tell("MODIFIED")(object) }, DeleteFunc: tell("DELETED")})
	if err != nil {
		return err
	}
	pods.Start(ctx.Done())
	pods.WaitForCacheSync(ctx.Done())
	go func() {
		err := sandbox.Watch(ctx, r.s, "/apis/karpenter.sh/v1/nodeclaims", func(kind string, c *karpv1.NodeClaim) {
			r.events <- event{at: time.Now(), kind: kind, claim: c}
		})
		if ctx.Err() == nil {
			r.events <- event{err: err}
		}
	}()
	return nil
}

const patience = 3 * time.Minute // for anything that is measured

const (
	classes = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
	pools   = "/apis/karpenter.sh/v1/nodepools"
)

// pool makes the node class and the pool of examples/nodepool.yaml, and waits until it can be bought from. Only empty nodes are removed:
// consolidation would change the nodes that are measured.
func (r *rig) pool(ctx context.Context) error {
	root, err := sandbox.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "nodepool.yaml"))
	if err != nil {
		return err
	}
	made := 0
	for _, doc := range strings.Split(strings.ReplaceAll(string(text), "WhenEmptyOrUnderutilized", "WhenEmpty"), "\n---\n") {
		path := pools
		if strings.Contains(doc, "kind: KWOKNodeClass\n") {
			path = classes
		}
		if err := r.s.Create(ctx, path, doc); err != nil {
			return fmt.Errorf("create the objects of examples/nodepool.yaml: %w", err)
		}
		made++
	}
	if made != 2 {
		return fmt.Errorf("examples/nodepool.yaml has %d documents, want a node class and a pool", made)
	}
	return r.poll(ctx, "the NodePool to be Ready", func() (bool, error) { return r.ready(ctx, "default") })
}

// ready reports whether a pool can be bought from.
func (r *rig) ready(ctx context.Context, pool string) (bool, error) {
	p, err := sandbox.Get[karpv1.NodePool](ctx, r.s, pools+"/"+pool)
	return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == "True" }), err
}

// poll waits for what nothing is measured of.
func (r *rig) poll(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := ask()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("timed out after %s waiting for %s", patience, what), err)
		case <-tick.C:
		}
	}
}

// follow hands on events until done says so.
func (r *rig) follow(ctx context.Context, what string, done func(event) bool) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e := <-r.events:
			if e.err != nil {
				return e.err
			}
			if done(e) {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("timed out after %s waiting for %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func podSpec(cpu, memory string) corev1.PodSpec {
	zero := int64(0)
	return corev1.PodSpec{TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}}}
}

// single measures one pod at a time; the cluster is empty again before the next one comes.
func (r *rig) single(ctx context.Context, runs int, out *SinglePod) error {
	if err := r.pool(ctx); err != nil {
		return err
	}
	// What is bought is to be gone before the next pod comes.
	if err := r.s.Patch(ctx, pools+"/default", `{"spec":{"disruption":{"consolidateAfter":"0s"}}}`); err != nil {
		return err
	}
	cpu, err := r.usage()
	if err != nil {
		return err
	}
	var toClaim, toRun []float64
	for i := range runs {
		name := fmt.Sprint("single-", i)
		_, claimed, ran, err := r.runPod(ctx, name, podSpec("900m", "3100Mi"))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "single: %d of %d: NodeClaim after %s, running after %s\n", i+1, runs, claimed.Round(time.Millisecond), ran.Round(time.Millisecond))
		toClaim, toRun = append(toClaim, claimed.Seconds()*1000), append(toRun, ran.Seconds()*1000)
		if err := r.endPod(ctx, name); err != nil {
			return err
		}
	}
	out.Runs = runs
	out.CreationToClaimP50Ms, out.CreationToClaimP99Ms = quantile(toClaim, 0.5), quantile(toClaim, 0.99)
	out.CreationToRunP50Ms, out.CreationToRunP99Ms = quantile(toRun, 0.5), quantile(toRun, 0.99)
	return r.since(cpu, &out.Controller)
}

// load is the burst.
var load = []struct {
	name, cpu, memory string
	count             int32
}{{"small", "900m", "3100Mi", 500}, {"large", "3500m", "28Gi", 500}}

// createBurst makes the burst's Deployments.
func (r *rig) createBurst(ctx context.Context) (pods int, err error) {
	r.begin = time.Now()
	for _, l := range load {
		labels := map[string]string{"app": l.name}
		_, err := r.s.Kube.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: l.name},
			Spec: appsv1.DeploymentSpec{Replicas: &l.count, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(l.cpu, l.memory)}},
		}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
		pods += int(l.count)
	}
	return pods, nil
}

// allRun follows until so many pods run.
func (r *rig) allRun(ctx context.Context, pods int, see func(event)) (time.Duration, error) {
	running := map[string]bool{}
	var last time.Duration
	err := r.follow(ctx, fmt.Sprint(pods, " pods to run"), func(e event) bool {
		see(e)
		if e.pod != nil && e.pod.Status.Phase == corev1.PodRunning && !running[e.pod.Name] {
			running[e.pod.Name] = true
			last = e.at.Sub(r.begin)
		}
		return len(running) >= pods
	})
	return last, err
}

// floor measures the burst onto nodes that are there, without an autoscaler.
func (r *rig) floor(ctx context.Context, nodes string, out *Burst) error {
	count, instanceType, ok := strings.Cut(nodes, "x ")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("--floor-nodes %q: use COUNTx TYPE, for example %q", nodes, "60x r5a.12xlarge")
	}
	for i := range n {
		if err := r.s.BaseNode(ctx, instanceType, fmt.Sprint("floor-", i)); err != nil {
			return err
		}
	}
	err = r.poll(ctx, "the nodes to be Ready and free of taints", func() (bool, error) {
		list, err := r.s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		usable := 0
		for _, node := range list.Items {
			if len(node.Spec.Taints) == 0 && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				usable++
			}
		}
		return usable == n+1, fmt.Errorf("%d of %d are", usable, n+1) // and the cluster's own
	})
	if err != nil {
		return err
	}
	before, err := r.account(ctx, true)
	if err != nil {
		return err
	}
	pods, err := r.createBurst(ctx)
	if err != nil {
		return err
	}
	took, err := r.allRun(ctx, pods, func(event) {})
	if err != nil {
		return err
	}
	out.FloorAttempts = append(out.FloorAttempts, round(took.Seconds()))
	after, err := r.account(ctx, false)
	if err != nil {
		return err
	}
	out.FloorAccount = after.less(before)
	return nil
}

// burst measures the burst on nothing but a NodePool.
func (r *rig) burst(ctx context.Context, out *Burst) error {
	if err := r.pool(ctx); err != nil {
		return err
	}
	before, err := r.account(ctx, true)
	if err != nil {
		return err
	}
	cpu, err := r.usage()
	if err != nil {
		return err
	}
	pods, err := r.createBurst(ctx)
	if err != nil {
		return err
	}
	var first, last, bound time.Duration
	isBound := map[string]bool{}
	took, err := r.allRun(ctx, pods, func(e event) {
		if e.claim != nil && e.kind == "ADDED" {
			if last = e.at.Sub(r.begin); first == 0 {
				first = last
			}
		}
		if e.pod != nil && e.pod.Spec.NodeName != "" && !isBound[e.pod.Name] {
			isBound[e.pod.Name] = true
			bound = e.at.Sub(r.begin)
		}
	})
	if err != nil {
		return err
	}
	after, err := r.account(ctx, false)
	if err != nil {
		return err
	}
	out.Account = after.less(before)
	if err := r.since(cpu, &out.Controller); err != nil {
		return err
	}
	var what []string
	for _, l := range load {
		what = append(what, fmt.Sprintf("%d x %s/%s", l.count, l.cpu, l.memory))
	}
	out.Pods = strings.Join(what, " + ")
	out.Seconds, out.FirstClaimS, out.LastClaimS, out.LastBoundS = round(took.Seconds()), round(first.Seconds()), round(last.Seconds()), round(bound.Seconds())
	all, err := r.s.Instances(ctx)
	if err != nil {
		return err
	}
	types := map[string]int{}
	var micro int64
	for _, in := range all {
		types[in.InstanceType]++
		micro += in.PriceMicro
	}
	for t, n := range types {
		out.MachinesBought = append(out.MachinesBought, fmt.Sprintf("%s x %d", t, n))
	}
	slices.Sort(out.MachinesBought)
	out.Machines, out.USDPerHour = len(all), round(float64(micro)/1e6)
	return nil
}

// usage is the CPU time that the controller has had.
func (r *rig) usage() (float64, error) {
	return sandbox.ProcessorSeconds(r.pid)
}

// since is what the controller took from an earlier usage on.
func (r *rig) since(before float64, out *Resources) error {
	now, err := r.usage()
	if err != nil {
		return err
	}
	peak, err := sandbox.PeakMemoryMiB(r.pid)
	if err != nil {
		return err
	}
	out.PeakMB = round(peak)
	out.CPUSeconds = round(now - before)
	return nil
}

// quantile is the smallest value that at least this share of them does not exceed.
func quantile(values []float64, share float64) float64 {
	s := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(share*float64(len(s)))) - 1
	return round(s[max(0, i)])
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// runPod makes a pod at begin and waits until something was bought for it and it runs.
func (r *rig) runPod(ctx context.Context, name string, spec corev1.PodSpec) (begin time.Time, claimed, ran time.Duration, err error) {
	begin = time.Now()
	if _, err = r.s.Kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
		return begin, 0, 0, err
	}
	err = r.follow(ctx, name+" to run", func(e event) bool {
		switch {
		case e.claim != nil && e.kind == "ADDED" && claimed == 0:
			claimed = e.at.Sub(begin)
		case e.pod != nil && e.pod.Name == name && e.pod.Status.Phase == corev1.PodRunning && ran == 0:
			ran = e.at.Sub(begin)
		}
		return claimed > 0 && ran > 0
	})
	return begin, claimed, ran, err
}

// endPod deletes a pod and waits until its node is given back.
func (r *rig) endPod(ctx context.Context, name string) error {
	if err := r.s.Kube.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return r.follow(ctx, "the node to be given back", func(e event) bool { return e.claim != nil && e.kind == "DELETED" })
}
