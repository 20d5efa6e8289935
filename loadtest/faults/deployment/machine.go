package deployment

import (
	"fmt"
	"os"
	"strconv"

	"chatclub/internal/machine"
	"chatclub/internal/tools/stall"
	"chatclub/loadtest/faults"
	"chatclub/loadtest/proc"
)

// Meter implements faults.System.
func (d *Deployment) Meter() func() string {
	meter := stall.Start()
	before := d.machine()
	return func() string {
		meter.Stop()
		after := d.machine()
		switch {
		case before == nil || after == nil:
			return "the machine does not say how busy it is"
		case after.OthersSince(*before) > machine.MostOthers:
			return fmt.Sprintf("other programs had %.0f %% of the processors", 100*after.OthersSince(*before))
		case meter.Starved():
			return meter.String()
		}
		return ""
	}
}

// machine reads what others had, beside this run's processes.
func (d *Deployment) machine() *machine.Use {
	own, err := machine.OwnCPU()
	if err != nil {
		return nil
	}
	for _, pid := range d.pids() {
		if cpu, err := proc.CPU(pid); err == nil {
			d.cpu[pid] = cpu // of one that has ended it is the last that was known
		}
	}
	for _, cpu := range d.cpu {
		own += cpu
	}
	return machine.Read(own)
}

// pids are the processes of the run, the broker's nodes where they are its own.
func (d *Deployment) pids() (pids []int) {
	for _, p := range d.all() {
		if cmd, _ := p.life(); cmd != nil {
			pids = append(pids, cmd.Process.Pid)
		}
	}
	for _, pid := range d.nodePIDs() {
		if pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nodePIDs are the processes that listen for the broker's nodes; 0 for one that is
// away.
func (d *Deployment) nodePIDs() (pids []int) {
	if d.cluster == nil {
		return nil
	}
	for _, addr := range d.cluster.Addrs() {
		pids = append(pids, proc.Listener("amqp://"+addr))
	}
	return pids
}

// procUsage reads what a process has, of which only the system knows; nil when it
// is gone.
func procUsage(name string, pid int) *faults.Usage {
	memory, err := proc.Memory(pid)
	if err != nil {
		return nil
	}
	u := &faults.Usage{Process: name, PID: pid, Memory: memory}
	if files, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd"); err == nil {
		u.Files = len(files)
	}
	return u
}
