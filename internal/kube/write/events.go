// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const (
	eventRepeat = 2 * time.Minute // an equal event within this time is not written again
	eventBurst  = 25              // events of the ordinary that may be written at once
	eventRate   = 5               // and in each second from then on
	eventQueue  = 10000           // waiting to be written, one after the other
	eventKeys   = 20000           // equal ones are known of so many

	scheduledRate  = 20          // events Scheduled in each second, when no pod is being bound
	scheduledPause = time.Second // after the last binding
)

// recorder writes Kubernetes events in the background. Events inform people and nothing else, so a flood is cut off rather than
// carried: the API server has better things to do while a thousand pods wait. Its goroutine lives as long as there is something
// to write, so there is nothing to shut down.
type recorder struct {
	c   *client.Client
	now func() time.Time

	mu      sync.Mutex
	last    map[[sha256.Size]byte]time.Time // by the sum of what makes events equal
	most    int                             // so many of them are kept before those are looked for that may be forgotten
	looked  int                             // at so many of them, in all
	tokens  float64
	filled  time.Time
	queue   fairEvents
	writing bool
	serial  uint64
	later   []*corev1.Event // Scheduled: written when nothing else is, and no pod is being bound

	bindings atomic.Int64 // under way
	bound    time.Time    // when the last one was answered
}

// Event records an event of an object. kind is a kind that Dovetail writes, or Headroom; warn makes it a warning. Equal
// events are written once in two minutes.
func (a *Actor) Event(kind, namespace, name, uid string, warn bool, reason, message string) {
	a.events.tell(kind, namespace, name, uid, warn, reason, message, nil)
}

// WriteReported records the event of a WriteReport, with its annotations.
func (a *Actor) WriteReported(kind, namespace, name, uid string, w plan.WriteReport) {
	a.events.tell(kind, namespace, name, uid, w.Refusal != "", w.Reason(), w.Text(), w.Annotations())
}

func (r *recorder) tell(kind, namespace, name, uid string, warn bool, reason, message string, annotations map[string]string) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := sha256.Sum256([]byte(kind + "\x00" + namespace + "\x00" + name + "\x00" + uid + "\x00" + reason + "\x00" + message))
	if at, ok := r.last[key]; ok && now.Sub(at) < eventRepeat {
		return
	}
	r.tokens = min(eventBurst, r.tokens+eventRate*now.Sub(r.filled).Seconds())
	r.filled = now
	// What needs attention is never left out for want of tokens: it is told once, and nobody would hear of it again.
	e := event(kind, namespace, name, uid, warn, reason, message, now, r.serial+1)
	e.Annotations = annotations
	if !warn && r.tokens < 1 || !r.queue.push(namespace, e) {
		return
	}
	r.serial++
	if !warn {
		r.tokens--
	}
	if len(r.last) > r.most {
		for k, at := range r.last {
			r.looked++
			if now.Sub(at) >= eventRepeat {
				delete(r.last, k)
			}
		}
		if len(r.last) >= eventKeys {
			clear(r.last)
		}
		r.most = min(max(4096, 2*len(r.last)), eventKeys)
	}
	r.last[key] = now
	r.start()
}

// scheduled tells of a pod that was bound, in kube-scheduler's words, once the bindings are over: a pod runs the sooner for each write that comes
// after its binding. Of more than eventQueue that wait, the youngest are left out.
func (r *recorder) scheduled(b plan.Bind) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound = now
	if len(r.later) >= eventQueue {
		return
	}
	r.serial++
	e := event("Pod", b.Namespace, b.Pod, b.UID, false, "Scheduled", "Successfully assigned "+model.PodKey(b.Namespace, b.Pod)+" to "+b.Node, now, r.serial)
	e.Action = "Binding"
	r.later = append(r.later, e)
	r.start()
}

// start starts writing queued events, unless this is already running. The caller holds mu.
func (r *recorder) start() {
	if !r.writing {
		r.writing = true
		go r.write()
	}
}

// next returns the event to write now; nil if there is none, with the delay until the next one: 0 if none is left.
func (r *recorder) next() (*corev1.Event, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.queue.pop(); e != nil {
		return e, 0
	}
	if len(r.later) == 0 {
		r.later, r.writing = nil, false
		return nil, 0
	}
	pause := r.bound.Add(scheduledPause).Sub(r.now())
	if r.bindings.Load() > 0 {
		pause = max(pause, scheduledPause/4)
	}
	if pause > 0 {
		return nil, pause
	}
	e := r.later[0]
	r.later = r.later[1:]
	r.bound = r.now().Add(time.Second/scheduledRate - scheduledPause) // the next one is as far off
	return e, 0
}

func event(kind, namespace, name, uid string, warn bool, reason, message string, now time.Time, serial uint64) *corev1.Event {
	e := &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, UID: types.UID(uid),
		},
		Reason: reason, Message: message, Type: corev1.EventTypeNormal, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
		Source: corev1.EventSource{Component: watch.EventSource}, ReportingController: watch.EventSource,
	}
	if len(e.Message) > 1024 {
		e.Message = strings.ToValidUTF8(e.Message[:1021], "") + "..." // the API server takes no more
	}
	if warn {
		e.Type = corev1.EventTypeWarning
	}
	switch kind {
	case "NodeClaim", "NodePool":
		e.InvolvedObject.APIVersion = karpv1.GroupVersion.String()
	case "NodeOverlay":
		e.InvolvedObject.APIVersion = karpv1alpha1.GroupVersion.String()
	case kwokv1alpha1.KindKWOKNodeClass:
		e.InvolvedObject.APIVersion = kwokv1alpha1.GroupVersion.String()
	case "CapacityBuffer", "CapacityQuota":
		e.InvolvedObject.APIVersion = autoscalingv1beta1.GroupVersion.String()
	case "ProvisioningRequest":
		e.InvolvedObject.APIVersion = autoscalingv1beta1.Group + "/v1"
	case "Lease":
		e.InvolvedObject.APIVersion = coordinationv1.SchemeGroupVersion.String()
	case "Deployment":
		e.InvolvedObject.APIVersion = appsv1.SchemeGroupVersion.String()
	case awsv1.KindEC2NodeClass:
		e.InvolvedObject.APIVersion = awsv1.GroupVersion.String()
	case clusterapiv1alpha1.KindClusterAPINodeClass:
		e.InvolvedObject.APIVersion = clusterapiv1alpha1.GroupVersion.String()
	case dovetailv1alpha1.KindHeadroom, dovetailv1alpha1.KindNodeGroupClass:
		e.InvolvedObject.APIVersion = dovetailv1alpha1.GroupVersion.String()
	}
	e.Namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	suffix := "." + strconv.FormatInt(now.UnixNano(), 16) + strconv.FormatUint(serial, 16)
	if len(name)+len(suffix) > 253 {
		name = name[:253-len(suffix)]
	}
	e.Name = name + suffix
	return e
}

func (r *recorder) write() {
	for {
		e, wait := r.next()
		if e == nil && wait == 0 {
			return
		}
		if e == nil {
			time.Sleep(wait)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := r.c.Core.Post().MaxRetries(0).Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
		cancel()
		if err != nil {
			r.c.Log.Debug("event not written", "reason", e.Reason, "object", e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, "error", err)
		}
	}
}
