// SPDX-License-Identifier: GPL-2.0-or-later
//! What an observer is told, in order, of runs that are short enough to be listed completely.

use wakelab_policy::EnqueueWhy;
use wakelab_sim::{Observer, run_observed};
use wakelab_workload::{Op, Source};

use crate::common::{HOSTS, bound, compute, machine, scenario};

#[derive(Default)]
struct Story(Vec<String>);

impl Story {
    fn tell(&mut self, now_ns: u64, what: String) {
        self.0.push(format!("{now_ns} {what}"));
    }
}

impl Observer for Story {
    fn start(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.tell(now_ns, format!("start {task} from {cpu}"));
    }
    fn wake(&mut self, now_ns: u64, cpu: u32, waker: Option<u32>, wakee: u32, flags: u32) {
        self.tell(now_ns, format!("wake {wakee} on {cpu} by {waker:?}, flags {flags}"));
    }
    fn enqueue(&mut self, now_ns: u64, cpu: u32, task: u32, why: EnqueueWhy) {
        self.tell(now_ns, format!("enqueue {task} on {cpu}: {why:?}"));
    }
    fn woken(&mut self, now_ns: u64, by_cpu: Option<u32>, cpu: u32, task: u32) {
        self.tell(now_ns, format!("woken {task} on {cpu} by {by_cpu:?}"));
    }
    fn switch_in(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.tell(now_ns, format!("in {task} on {cpu}"));
    }
    fn switch_out(&mut self, now_ns: u64, cpu: u32, task: u32, runnable: bool) {
        self.tell(now_ns, format!("out {task} on {cpu}, runnable {runnable}"));
    }
    fn idle(&mut self, now_ns: u64, cpu: u32) {
        self.tell(now_ns, format!("idle {cpu}"));
    }
    fn interrupt_enter(&mut self, now_ns: u64, cpu: u32, source: Source) {
        self.tell(now_ns, format!("enter {source:?} on {cpu}"));
    }
    fn interrupt_exit(&mut self, now_ns: u64, cpu: u32) {
        self.tell(now_ns, format!("exit on {cpu}"));
    }
    fn exit(&mut self, now_ns: u64, cpu: u32, task: u32) {
        self.tell(now_ns, format!("task {task} exits on {cpu}"));
    }
}

/// One CPU; an interrupt takes 70, a wake-up 5. Task 0 computes 100, sleeps 200 by a device, computes 100. Task 1
/// computes from 100 on; at 300 the device interrupts it, at 370 the wake-up begins and at 375 the wakee is queued,
/// which has run less and preempts it. What is left of task 1 after its first 200 begins when task 0 has exited, at
/// 475, and ends 500 later.
#[test]
fn a_device_wakes_a_sleeper_through_another_task() {
    for host in HOSTS {
        let mut machine = machine(1, 1, 1);
        machine.costs.interrupt_ns = 70;
        machine.costs.wakeup_ns = 5;
        let sleeps = vec![compute(100), Op::Sleep { delay_ns: 200, source: Source::Device }, compute(100)];
        let tasks = vec![bound(&[0], sleeps), bound(&[0], vec![compute(700)])];
        let mut story = Story::default();
        run_observed(&scenario(machine, tasks, host), 1, &mut story).unwrap();
        let expected = [
            "0 start 0 from 0",
            "0 enqueue 0 on 0: Fork",
            "0 woken 0 on 0 by None",
            "0 in 0 on 0",
            "0 start 1 from 0",
            "0 enqueue 1 on 0: Fork",
            "0 woken 1 on 0 by None",
            "100 out 0 on 0, runnable false",
            "100 in 1 on 0",
            "300 enter Device on 0",
            "370 wake 0 on 0 by Some(1), flags 8",
            "375 enqueue 0 on 0: Wakeup",
            "375 woken 0 on 0 by Some(0)",
            "375 exit on 0",
            "375 enqueue 1 on 0: SliceEnd",
            "375 out 1 on 0, runnable true",
            "375 in 0 on 0",
            "475 task 0 exits on 0",
            "475 out 0 on 0, runnable false",
            "475 in 1 on 0",
            "975 task 1 exits on 0",
            "975 out 1 on 0, runnable false",
            "975 idle 0",
        ];
        assert_eq!(story.0, expected, "{host:?}");
    }
}

/// Task 0 has run for 20 ms when it wakes tasks 1 and 2, each of which may preempt it: it gives way once, after both.
#[test]
fn signals_in_a_row_are_raised_in_one_kernel_path() {
    for host in HOSTS {
        let signal = |signal| Op::Signal { signal, sync: false };
        let wakes = vec![compute(20_000_000), signal(0), signal(1), compute(1000)];
        let waits = |signal| bound(&[0], vec![Op::Wait { signal }, compute(1000)]);
        let tasks = vec![bound(&[0], wakes), waits(0), waits(1)];
        let mut story = Story::default();
        run_observed(&scenario(machine(1, 1, 1), tasks, host), 1, &mut story).unwrap();
        let place = |what: &str| story.0.iter().position(|line| line.ends_with(what)).unwrap();
        let second = place("enqueue 2 on 0: Wakeup");
        assert!(place("enqueue 1 on 0: Wakeup") < second, "{host:?}: {:?}", story.0);
        let way = story.0.iter().rposition(|line| line.ends_with("out 0 on 0, runnable true")).unwrap();
        assert!(second < way, "{host:?}: {:?}", story.0);
    }
}
