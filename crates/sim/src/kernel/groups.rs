// SPDX-License-Identifier: GPL-2.0-or-later
//! Task groups: what the policy is told about them, its timer, and the CPU time that each group received.
//!
//! The policy's timer fires on the first CPU, which pays for the interrupt: the policy is asked at the beginning, and
//! what it read is charged there.

use wakelab_workload::GroupIndex;

use crate::engine::Engine;
use crate::hardware::cpu::Doing;
use crate::ids::UNITS;
use crate::observer::Observer;
use crate::outcome::GroupTime;
use crate::time_use::TimeKind;

/// The CPU on which the policy's timer fires.
const TIMER_CPU: u32 = 0;

/// The policy's slot of a group; 0 is the root's.
fn slot(group: Option<GroupIndex>) -> u32 {
    group.map_or(0, |group| group + 1)
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    /// Tells the policy about all groups.
    pub(crate) fn init_groups(&mut self) {
        for group in self.workload.groups_parents_first() {
            let spec = &self.workload.groups[group as usize];
            self.kernel.host.group_init(group + 1, slot(spec.parent), spec.shares);
        }
    }

    /// Puts a new task into its first group.
    pub(crate) fn init_group(&mut self, task: u32) {
        let group = self.workload.tasks[task as usize].group;
        self.kernel.threads[task as usize].group = group;
        if group.is_some() {
            let record = &mut self.kernel.records[task as usize];
            self.kernel.host.task_group(record, slot(group), self.hardware.now_ns);
        }
    }

    /// Changes the shares of a group, from `cpu`.
    pub(crate) fn set_shares(&mut self, cpu: u32, group: GroupIndex, shares: u32) {
        self.kernel.host.group_shares(cpu, group + 1, shares);
    }

    /// Moves a running task to another group: the CPU time that it has received counts in the group that it leaves.
    pub(crate) fn move_to_group(&mut self, cpu: u32, task: u32, group: Option<GroupIndex>) {
        let now_ns = self.hardware.now_ns;
        self.kernel.cpus[cpu as usize].read_clock(now_ns);
        self.charge_quota(cpu);
        let t = &mut self.kernel.threads[task as usize];
        let received_ns = t.cpu_time_ns + (now_ns - t.runs_since_ns);
        let left = std::mem::replace(&mut t.group, group);
        let since_ns = std::mem::replace(&mut t.group_since_ns, received_ns);
        if let Some(left) = left {
            self.kernel.group_time_ns[left as usize] += received_ns - since_ns;
        }
        self.kernel.host.task_group(&mut self.kernel.records[task as usize], slot(group), now_ns);
    }

    /// The CPU time that each group received: by its own tasks, and by those of all groups in it. No task may be
    /// running.
    pub(crate) fn group_times(&self) -> Vec<GroupTime> {
        let mut own_ns = self.kernel.group_time_ns.clone();
        for thread in &self.kernel.threads {
            if let Some(group) = thread.group {
                own_ns[group as usize] += thread.cpu_time_ns - thread.group_since_ns;
            }
        }
        let groups = &self.workload.groups;
        let mut times: Vec<GroupTime> = groups
            .iter()
            .zip(own_ns)
            .map(|(group, own_cpu_time_ns)| GroupTime {
                name: group.name.clone(),
                cpu_time_ns: own_cpu_time_ns,
                own_cpu_time_ns,
                throttled_ns: None,
            })
            .collect();
        for (group, time) in (0..).zip(&mut times) {
            let bandwidth = self.kernel.bandwidth.as_ref().filter(|_| groups[group as usize].quota.is_some());
            time.throttled_ns = bandwidth.map(|books| books.throttled_ns(group, self.hardware.now_ns));
        }
        for group in self.workload.groups_parents_first().into_iter().rev() {
            if let Some(parent) = groups[group as usize].parent {
                times[parent as usize].cpu_time_ns += times[group as usize].cpu_time_ns;
            }
        }
        times
    }

    /// Asks the policy before the run whether it wants its timer.
    pub(crate) fn start_policy_timer(&mut self) {
        (self.kernel.policy_timer, _) = self.kernel.host.timer(TIMER_CPU, self.hardware.now_ns);
        self.carry_out_policy_timer();
    }

    /// The policy's timer fires.
    pub(crate) fn raise_policy_timer(&mut self) {
        self.kernel.cpus[TIMER_CPU as usize].policy_timer_pending = true;
        self.interrupt(TIMER_CPU);
    }

    /// Begins to handle the policy's timer.
    pub(crate) fn start_policy_timer_interrupt(&mut self, cpu: u32) {
        let (answer, cost) = self.kernel.host.timer(cpu, self.hardware.now_ns);
        self.kernel.policy_timer = answer;
        self.ledger.tally.timer(&answer, &cost.misses);
        let c = &mut self.hardware.cpus[cpu as usize];
        c.set(Doing::PolicyTimer, TimeKind::Interrupt, self.costs.interrupt_ns * UNITS);
        c.add_tail(TimeKind::Balance, cost.transfers_ns * UNITS);
    }

    /// The policy's timer has been handled.
    pub(crate) fn finish_policy_timer(&mut self, cpu: u32) {
        self.carry_out_policy_timer();
        self.run_pending(cpu);
    }

    fn carry_out_policy_timer(&mut self) {
        let answer = self.kernel.policy_timer;
        if let Ok(target) = u32::try_from(answer.kick_cpu)
            && self.kernel.cpus[target as usize].is_idle()
        {
            self.resched_curr(None, target, false, 0);
        }
        if answer.next_ns > 0 {
            let next_ns = answer.next_ns.max(self.hardware.now_ns + 1);
            self.hardware.queue.set_policy_timer(next_ns);
        }
    }
}
