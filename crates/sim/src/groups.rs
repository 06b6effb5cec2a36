// SPDX-License-Identifier: GPL-2.0-or-later
//! Task groups: what the policy is told of them, its timer, and what each group received.
//!
//! The policy's timer fires on the first CPU, whose interrupt it is: the policy is asked at its beginning, and what it
//! read is charged there.

use wakelab_workload::GroupIndex;

use crate::cpu::{Doing, Kind, UNITS};
use crate::engine::Engine;
use crate::observer::Observer;
use crate::outcome::GroupTime;

/// Where the policy's timer fires.
const TIMER_CPU: u32 = 0;

/// The policy's slot of a group; 0 is the root's.
fn slot(group: Option<GroupIndex>) -> u32 {
    group.map_or(0, |group| group + 1)
}

impl<O: Observer + ?Sized> Engine<'_, O> {
    pub(crate) fn init_groups(&mut self) {
        for group in self.workload.groups_parents_first() {
            let spec = &self.workload.groups[group as usize];
            self.policy.group_init(group + 1, slot(spec.parent), spec.shares);
        }
    }

    /// The group in which a task begins.
    pub(crate) fn init_group(&mut self, task: u32) {
        let group = self.workload.tasks[task as usize].group;
        self.tasks[task as usize].group = group;
        if group.is_some() {
            self.policy.task_group(&mut self.records[task as usize], slot(group), self.now_ns);
        }
    }

    pub(crate) fn set_shares(&mut self, cpu: u32, group: GroupIndex, shares: u32) {
        self.policy.group_shares(cpu, group + 1, shares);
    }

    /// The current task of `cpu` goes to another group: what it received so far counts in the one that it leaves.
    pub(crate) fn move_to_group(&mut self, task: u32, group: Option<GroupIndex>) {
        let t = &mut self.tasks[task as usize];
        let received_ns = t.cpu_time_ns + (self.now_ns - t.runs_since_ns);
        let left = std::mem::replace(&mut t.group, group);
        let since_ns = std::mem::replace(&mut t.group_since_ns, received_ns);
        if let Some(left) = left {
            self.group_time_ns[left as usize] += received_ns - since_ns;
        }
        self.policy.task_group(&mut self.records[task as usize], slot(group), self.now_ns);
    }

    /// What each group received: its own tasks, and with all groups in it. No task runs any more.
    pub(crate) fn group_times(&self) -> Vec<GroupTime> {
        let mut own_ns = self.group_time_ns.clone();
        for task in &self.tasks {
            if let Some(group) = task.group {
                own_ns[group as usize] += task.cpu_time_ns - task.group_since_ns;
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
            })
            .collect();
        for group in self.workload.groups_parents_first().into_iter().rev() {
            if let Some(parent) = groups[group as usize].parent {
                times[parent as usize].cpu_time_ns += times[group as usize].cpu_time_ns;
            }
        }
        times
    }

    /// Before the run: whether the policy wants its timer.
    pub(crate) fn start_policy_timer(&mut self) {
        self.policy_timer = self.policy.timer(TIMER_CPU, self.now_ns);
        self.carry_out_policy_timer();
    }

    pub(crate) fn policy_timer_fires(&mut self) {
        self.cpus[TIMER_CPU as usize].policy_timer_pending = true;
        self.interrupt(TIMER_CPU);
    }

    pub(crate) fn policy_timer(&mut self, cpu: u32) {
        self.policy_timer = self.policy.timer(cpu, self.now_ns);
        self.tally.timer(&self.policy_timer, &self.policy.seen().misses);
        let transfers_ns = self.transfers_ns();
        let c = &mut self.cpus[cpu as usize];
        c.set(Doing::PolicyTimer, Kind::Interrupt, self.costs.interrupt_ns * UNITS);
        c.add_tail(Kind::Balance, transfers_ns * UNITS);
    }

    pub(crate) fn policy_timer_over(&mut self, cpu: u32) {
        self.carry_out_policy_timer();
        self.next(cpu);
    }

    fn carry_out_policy_timer(&mut self) {
        let answer = self.policy_timer;
        if let Ok(target) = u32::try_from(answer.kick_cpu)
            && self.cpus[target as usize].is_idle()
        {
            self.notify(None, target, false);
        }
        if answer.next_ns > 0 {
            self.queue.set_policy_timer(answer.next_ns.max(self.now_ns + 1));
        }
    }
}
