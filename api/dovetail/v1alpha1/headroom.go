// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindHeadroom is the kind of a Headroom.
const KindHeadroom = "Headroom"

// LabelHeadroom is on a CapacityBuffer that was made for a Headroom of its namespace: the Headroom's name, or the start
// of it.
const LabelHeadroom = Group + "/headroom"

// Headroom says what is to be ready ahead of demand: for which workloads, at which times, at which price. Dovetail
// writes CapacityBuffers for it, which it owns; nothing is launched for a Headroom itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=headrooms,scope=Namespaced,categories=autoscaling,shortName=hr
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.mode"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Held",type="integer",JSONPath=".status.held",description="For how many pods room is held, or would be in mode Recommend."
// +kubebuilder:printcolumn:name="$/h",type="string",JSONPath=".status.heldDollarsPerHour"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.nextWindow.name"
// +kubebuilder:printcolumn:name="Opens",type="string",JSONPath=".status.nextWindow.opens"
// +kubebuilder:printcolumn:name="Hits",type="integer",JSONPath=".status.lastWeek.hits"
// +kubebuilder:printcolumn:name="Misses",type="integer",JSONPath=".status.lastWeek.misses"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Headroom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HeadroomSpec   `json:"spec"`
	Status HeadroomStatus `json:"status,omitempty"`
}

// HeadroomList is a list of Headrooms.
//
// +kubebuilder:object:root=true
type HeadroomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Headroom `json:"items"`
}

// HeadroomMode is whether a Headroom buys.
//
// +kubebuilder:validation:Enum=Off;Recommend;Active
type HeadroomMode string

// The modes of a Headroom.
const (
	HeadroomOff       HeadroomMode = "Off"       // nothing is worked out
	HeadroomRecommend HeadroomMode = "Recommend" // the status says what would have been held, spared and spent; nothing is bought
	HeadroomActive    HeadroomMode = "Active"    // capacity is held
)

// HeadroomSpec is what is to be ready, when, and what may be spent on it.
type HeadroomSpec struct {
	// Target is what capacity is held for.
	//
	// +required
	Target HeadroomTarget `json:"target"`

	// Calendar lists the times at which capacity is to be ready.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	// +optional
	Calendar []HeadroomWindow `json:"calendar,omitempty"`

	// Learned says how much is held ahead of rises that recur, beside the calendar.
	//
	// +kubebuilder:default={}
	// +optional
	Learned HeadroomLearned `json:"learned,omitempty"`

	// Mode is Off, Recommend or Active. Default: Recommend, which buys nothing.
	//
	// +kubebuilder:default=Recommend
	// +optional
	Mode HeadroomMode `json:"mode,omitempty"`

	// Limits are never exceeded by what this Headroom holds in sum.
	//
	// +optional
	Limits HeadroomLimits `json:"limits,omitempty"`
}

// HeadroomTarget is a workload, a selector of workloads, or a PodTemplate, all in the Headroom's namespace.
//
// +kubebuilder:validation:XValidation:rule="(has(self.workload) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.podTemplateRef) ? 1 : 0) == 1",message="give exactly one of workload, selector and podTemplateRef"
type HeadroomTarget struct {
	// Workload is one object with a scale subresource.
	//
	// +optional
	Workload *HeadroomWorkload `json:"workload,omitempty"`

	// Selector chooses Deployments and StatefulSets by their own labels. An empty selector chooses all of the namespace.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// PodTemplateRef names a PodTemplate: the shape of one pod. It has no replicas, so its windows need a number of them
	// and nothing is learned.
	//
	// +optional
	PodTemplateRef *HeadroomTemplateRef `json:"podTemplateRef,omitempty"`
}

// HeadroomWorkload names a workload.
type HeadroomWorkload struct {
	// APIVersion is the workload's group and version, such as apps/v1.
	//
	// +kubebuilder:default=apps/v1
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the workload, such as Deployment.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`

	// Name of the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// HeadroomTemplateRef names a PodTemplate.
type HeadroomTemplateRef struct {
	// Name of the PodTemplate.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// HeadroomWindow is a time at which capacity is ready, again and again. It gives one of replicas, percent and
// asLastTime.
type HeadroomWindow struct {
	// Name of the window, one of its own in the calendar.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// Schedule is a cron expression of five fields, or @hourly, @daily, @weekly, @monthly, @yearly: when the window opens.
	// Nodes are launched earlier, by the time that they take to become Ready.
	//
	// +kubebuilder:validation:MinLength=1
	// +required
	Schedule string `json:"schedule"`

	// TimeZone is the IANA time zone of the schedule, such as Europe/Berlin. Default: UTC.
	//
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// Duration is how long the window is open. It is at most the time from one opening to the next.
	//
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +required
	Duration metav1.Duration `json:"duration"`

	// Replicas is how many replicas have room while the window is open, those that run included: what the workload would
	// be scaled to by hand. For a PodTemplate, for how many pods room is held.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Percent is how many more replicas have room, as a percentage of those when nodes are first launched for the window.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// AsLastTime makes room for as many replicas as the workload had at most when the window was last open.
	//
	// +optional
	AsLastTime bool `json:"asLastTime,omitempty"`
}

// HeadroomLearned is how a minute that a pod waits is priced against a minute that room for one stands idle. Only the
// ratio matters: of 19 to 1, as much is held as suffices 19 times of 20.
type HeadroomLearned struct {
	// Disabled: only the calendar counts.
	//
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// TimeZone is the IANA time zone, such as Europe/Berlin, whose clock recurring spikes follow, also when it is put
	// forward or back. Default: the time zone of the calendar's windows where all have the same, else UTC.
	//
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// WaitingCost is what a minute costs that one pod waits for a node. Default: by the priority of the pods, 4 below 0,
	// 100 from 1000000 on, 20 between.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	WaitingCost *int64 `json:"waitingCost,omitempty"`

	// IdleCost is what a minute costs that room for one pod stands idle. Default: 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	IdleCost *int64 `json:"idleCost,omitempty"`
}

// HeadroomLimits bound what is held in sum.
type HeadroomLimits struct {
	// Replicas for which room is held at most.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Resources that the pods may ask for in sum for which room is held.
	//
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// DollarsPerHour that nodes for the held room may cost by the catalogue's prices, such as "12.50".
	//
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]{1,6})?$`
	// +kubebuilder:validation:MaxLength=16
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`
}

// Conditions of a Headroom.
const (
	// ConditionHeadroomReady is False while the spec can't be carried out: nothing is bought then.
	ConditionHeadroomReady = "Ready"
	// ConditionHolding is True while capacity is held.
	ConditionHolding = "Holding"
	// ConditionWithinLimits is False while a limit keeps this Headroom from holding all that it wants.
	ConditionWithinLimits = "WithinLimits"
)

// HeadroomStatus is what is held now, what comes next, and what came of it in the last week.
type HeadroomStatus struct {
	// ObservedGeneration is the generation of the spec that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Holding and WithinLimits.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Held is for how many pods room is held now. In mode Recommend: would be held.
	//
	// +optional
	Held int32 `json:"held"`

	// HeldDollarsPerHour is what nodes for that cost by the catalogue's prices; empty: the price is not known.
	//
	// +optional
	HeldDollarsPerHour string `json:"heldDollarsPerHour,omitempty"`

	// LeadSeconds is how long nodes take from NodeClaim to Ready: the 95th percentile of the last ones, or 120 while there
	// are none.
	//
	// +optional
	LeadSeconds int64 `json:"leadSeconds,omitempty"`

	// NextWindow is the window of the calendar that opens next, or is open.
	//
	// +optional
	NextWindow *HeadroomNextWindow `json:"nextWindow,omitempty"`

	// Workloads are what is held for whom.
	//
	// +optional
	Workloads []HeadroomWorkloadStatus `json:"workloads,omitempty"`

	// LastWeek sums up the last seven days.
	//
	// +optional
	LastWeek HeadroomRecord `json:"lastWeek,omitempty"`

	// Days are the days that LastWeek sums up, oldest first.
	//
	// +optional
	Days []HeadroomDay `json:"days,omitempty"`
}

// HeadroomNextWindow is one opening of a window.
type HeadroomNextWindow struct {
	Name string `json:"name"`
	// LaunchFrom is when nodes are launched for it.
	LaunchFrom metav1.Time `json:"launchFrom"`
	Opens      metav1.Time `json:"opens"`
	Closes     metav1.Time `json:"closes"`
}

// HeadroomWorkloadStatus is what is held for one workload.
type HeadroomWorkloadStatus struct {
	// Group is the API group of the kind; empty: the core group.
	//
	// +optional
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	// Replicas that the workload asks for now.
	Replicas int32 `json:"replicas"`
	// Wanted is for how many further pods room is wanted, and Held is what the limits leave of that.
	Wanted int32 `json:"wanted"`
	Held   int32 `json:"held"`
	// Coming is for how many of the workload's own pods that have no node yet room is still held.
	//
	// +optional
	Coming int32 `json:"coming,omitempty"`
	// For is what it is held for: the name of a window, or a forecast. Empty: nothing is.
	//
	// +optional
	For string `json:"for,omitempty"`
	// Windows that are prepared or open, and the replicas when nodes were first launched for each.
	//
	// +optional
	Windows []HeadroomWindowStatus `json:"windows,omitempty"`
	// NextHour is the forecast of the demand in each quarter of the next hour, in replicas; empty: too little is known.
	//
	// +optional
	NextHour []int32 `json:"nextHour,omitempty"`
	// Spikes are recurring ones that may come within the next hour.
	//
	// +optional
	Spikes []HeadroomSpike `json:"spikes,omitempty"`
}

// HeadroomWindowStatus is a window that is prepared or open.
type HeadroomWindowStatus struct {
	Name     string      `json:"name"`
	Opens    metav1.Time `json:"opens"`
	Replicas int32       `json:"replicas"`
}

// HeadroomSpike is a recurring spike that is expected.
type HeadroomSpike struct {
	// Pattern is Hourly, Daily, Workdays or Weekly.
	Pattern string      `json:"pattern"`
	From    metav1.Time `json:"from"`
	To      metav1.Time `json:"to"`
	// Rise in replicas.
	Rise int32 `json:"rise"`
	// ChancePercent that it comes within the hour.
	ChancePercent int32 `json:"chancePercent"`
}

// HeadroomRecord is what was held and what came of it. In mode Recommend it is what would have been.
type HeadroomRecord struct {
	// Hits are spikes all of whose pods had room that was held for them; Misses are the others.
	Hits   int32 `json:"hits"`
	Misses int32 `json:"misses"`
	// SparedPodMinutes are what pods would have waited for nodes without the room that was held; WaitedPodMinutes are what
	// pods of spikes waited all the same.
	SparedPodMinutes int64 `json:"sparedPodMinutes"`
	WaitedPodMinutes int64 `json:"waitedPodMinutes"`
	// IdlePodMinutes are how long room was held, times its pods, and Dollars what that cost by the catalogue's prices.
	IdlePodMinutes int64  `json:"idlePodMinutes"`
	Dollars        string `json:"dollars,omitempty"`
}

// HeadroomDay is the record of a day in UTC.
type HeadroomDay struct {
	Date           string `json:"date"`
	HeadroomRecord `json:",inline"`
}
