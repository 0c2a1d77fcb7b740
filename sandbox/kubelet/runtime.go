// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
)

// runFor is the annotation that says how long a Job's pod runs; a second by default. kwok's stages read it too.
const runFor = "sandbox.dovetail.sh/run-for"

// containers is a container runtime without containers. One runs from the moment it is started until it is stopped; those of a
// Job's pod and init containers end by themselves. What runs is kept in a file: containers outlive their kubelet.
type containers struct {
	*apitest.FakeRuntimeService
	client kubernetes.Interface
	file   string
	ends   map[string]time.Time // when containers end by themselves, by id; the lock of FakeRuntimeService holds for it
}

// kept is the content of the file.
type kept struct {
	Sandboxes  map[string]*apitest.FakePodSandbox
	Containers map[string]*apitest.FakeContainer
	Ends       map[string]time.Time
}

// newRuntime returns a runtime in which runs what the file says. With network false it reports that pods would have no network, which
// keeps a node from becoming Ready.
func newRuntime(client kubernetes.Interface, file string, network bool) (*containers, error) {
	fake := apitest.NewFakeRuntimeService()
	fake.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true},
		{Type: cri.NetworkReady, Status: network, Reason: "NetworkPluginNotReady", Message: "the CNI plugin is not initialized"},
	}}
	r := &containers{FakeRuntimeService: fake, client: client, file: file, ends: map[string]time.Time{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("read what runs on the machine: %w", err)
	}
	if k.Sandboxes != nil && k.Containers != nil && k.Ends != nil {
		fake.Sandboxes, fake.Containers, r.ends = k.Sandboxes, k.Containers, k.Ends
	}
	for id, at := range r.ends {
		r.endAt(id, at)
	}
	return r, nil
}

// save writes the file; done is what the request came to.
func (r *containers) save(done error) error {
	if done != nil {
		return done
	}
	r.Lock()
	defer r.Unlock()
	text, err := json.Marshal(kept{r.Sandboxes, r.Containers, r.ends})
	if err == nil {
		err = os.WriteFile(r.file+".next", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.file+".next", r.file)
	}
	if err != nil {
		return fmt.Errorf("keep what runs on the machine: %w", err)
	}
	return nil
}

// RunPodSandbox starts a pod's sandbox.
func (r *containers) RunPodSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (string, error) {
	id, err := r.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	return id, r.save(err)
}

// StopPodSandbox stops a pod's sandbox.
func (r *containers) StopPodSandbox(ctx context.Context, id string) error {
	return r.save(r.FakeRuntimeService.StopPodSandbox(ctx, id))
}

// RemovePodSandbox removes a pod's sandbox.
func (r *containers) RemovePodSandbox(ctx context.Context, id string) error {
	return r.save(r.FakeRuntimeService.RemovePodSandbox(ctx, id))
}

// CreateContainer makes a container that does not run.
func (r *containers) CreateContainer(ctx context.Context, sandbox string, config *cri.ContainerConfig, of *cri.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandbox, config, of)
	return id, r.save(err)
}

// RemoveContainer removes a container.
func (r *containers) RemoveContainer(ctx context.Context, id string) error {
	return r.save(r.FakeRuntimeService.RemoveContainer(ctx, id))
}

// StartContainer starts a container, and ends it after its life where it has one. It reads the pod itself: the requests do not tell a
// Job's pod from another, nor an init container.
func (r *containers) StartContainer(ctx context.Context, id string) error {
	r.Lock()
	c := r.Containers[id]
	var of *cri.PodSandboxMetadata
	if c != nil && r.Sandboxes[c.SandboxID] != nil {
		of = r.Sandboxes[c.SandboxID].Metadata
	}
	r.Unlock()
	if of == nil {
		return fmt.Errorf("container %q not found", id)
	}
	pod, err := r.client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read pod %s/%s: %w", of.Namespace, of.Name, err)
	}
	if string(pod.UID) != of.Uid {
		return fmt.Errorf("pod %s/%s is another one by now", of.Namespace, of.Name)
	}
	life, ends, err := lifeOf(pod, c.Metadata.Name)
	if err != nil {
		return err
	}
	if err := r.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	if ends {
		at := time.Now().Add(life)
		r.Lock()
		r.ends[id] = at
		r.Unlock()
		r.endAt(id, at)
	}
	return r.save(nil)
}

// lifeOf returns how long a container runs; ends is false for one that runs until it is stopped.
func lifeOf(pod *corev1.Pod, name string) (life time.Duration, ends bool, err error) {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return 0, c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways, nil
		}
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" {
		return 0, false, nil
	}
	life = time.Second
	if text := pod.Annotations[runFor]; text != "" {
		if life, err = time.ParseDuration(text); err != nil {
			return 0, false, fmt.Errorf("annotation %s: %w", runFor, err)
		}
	}
	return life, true, nil
}

// endAt ends a container by itself at an instant.
func (r *containers) endAt(id string, at time.Time) {
	time.AfterFunc(time.Until(at), func() {
		if err := r.end(id, 0, "Completed"); err != nil {
			klog.ErrorS(err, "A container ended", "containerID", id)
		}
	})
}

// StopContainer ends a container at the first signal.
func (r *containers) StopContainer(_ context.Context, id string, _ int64) error {
	return r.end(id, 128+15, "Error")
}

func (r *containers) end(id string, code int32, reason string) error {
	r.Lock()
	delete(r.ends, id)
	if c := r.Containers[id]; c != nil && c.State != cri.ContainerState_CONTAINER_EXITED {
		c.State, c.FinishedAt, c.ExitCode, c.Reason = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code, reason
	}
	r.Unlock()
	return r.save(nil)
}

var sleepCommand = regexp.MustCompile(`(?:^|[ ;&/])sleep ([0-9]+)`)

// ExecSync runs what a hook executes: the command sleep, wherever it stands, takes its seconds; all else succeeds at once.
func (r *containers) ExecSync(ctx context.Context, _ string, command []string, _ time.Duration) (stdout, stderr []byte, err error) {
	found := sleepCommand.FindStringSubmatch(strings.Join(command, " "))
	if found == nil {
		return nil, nil, nil
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil {
		return nil, nil, fmt.Errorf("sleep %s: %w", found[1], err)
	}
	return nil, nil, pause(ctx, time.Duration(seconds)*time.Second)
}

// images is an image service where each image takes a while to be pulled.
type images struct {
	*apitest.FakeImageService
	pull time.Duration
}

func newImages(pull time.Duration) images { return images{apitest.NewFakeImageService(), pull} }

// PullImage returns when the image would have been pulled.
func (i images) PullImage(ctx context.Context, image *cri.ImageSpec, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) (string, error) {
	if err := pause(ctx, i.pull); err != nil {
		return "", err
	}
	return i.FakeImageService.PullImage(ctx, image, auth, sandbox)
}

// pause returns after d, or with an error when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
