// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * messages.bpf.c - who writes to which pipe or eventfd, and who reads from it.
 *
 * The kernel has no events of these. perf's events of system calls cost each read and write
 * of the machine twice several hundred ns, on files and sockets, too, and those that open
 * and close descriptors must be recorded with them. Programs at raw_syscalls look at the
 * file itself, and tell of pipes and eventfds alone:
 *   begins	A write is told when it begins, because it wakes a reader before it
 *		returns, with the bytes that it was asked to write
 *   wrote	If it wrote fewer, or failed, its return is told, too; of writev, whose
 *		bytes are in the program's memory, it always is
 *   read	A read is told when it returns, if it has read
 * They are raw tracepoints and not fentry programs on the functions of pipes, which would
 * cost other system calls nothing, because some kernels forbid the latter even to root (the
 * cloud's machine on which this was written does).
 *
 * Cost: crates/record measures it with each recording. While they are attached, every system
 * call takes the kernel's slow path, as with events of sched_yield and futex, and runs both
 * programs, which return at once for most. splice, tee and vmsplice move bytes untold, as do
 * 32-bit programs and io_uring; the number of an eventfd that is closed goes to the next
 * one, which counts as the same.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* include/uapi/linux/bpf.h */
#define MAP_ARRAY	2
#define MAP_RINGBUF	27
#define RB_NO_WAKEUP	1
#define RB_FORCE_WAKEUP 2
#define RB_AVAIL_DATA	0
#define RB_RING_SIZE	1

#define COMM_BYTES 16

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/linux/stat.h */
#define S_IFMT	0170000
#define S_IFIFO 0010000
/* include/uapi/linux/magic.h; the file system of files without a name, such as eventfds */
#define ANON_INODE_FS_MAGIC 0x09041934
/* The first bytes of their name, "[eventfd]", on machines of this byte order. */
#define EVENTFD_NAME 0x6466746e6576655bULL

/* Numbers of system calls, and where a task's registers hold them. */
#if defined(__TARGET_ARCH_x86)
#define NR_READ	  0
#define NR_WRITE  1
#define NR_READV  19
#define NR_WRITEV 20
struct pt_regs {
	unsigned long dx;
	unsigned long di;
	unsigned long orig_ax;
} __attribute__((preserve_access_index));
#define FD(regs)    BPF_CORE_READ(regs, di)
#define COUNT(regs) BPF_CORE_READ(regs, dx)
#define CALL(regs)  BPF_CORE_READ(regs, orig_ax)
#elif defined(__TARGET_ARCH_arm64)
#define NR_READ	    63
#define NR_WRITE    64
#define NR_READV    65
#define NR_WRITEV   66
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	int syscallno;
} __attribute__((preserve_access_index));
#define FD(regs)    BPF_CORE_READ(regs, orig_x0)
#define COUNT(regs) BPF_CORE_READ(regs, regs[2])
#define CALL(regs)  BPF_CORE_READ(regs, syscallno)
#else
#error "which registers of this architecture hold the arguments of a system call?"
#endif

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
} __attribute__((preserve_access_index));

struct pipe_inode_info {
	__u32 max_usage;
} __attribute__((preserve_access_index));

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
	struct pipe_inode_info *i_pipe;
} __attribute__((preserve_access_index));

struct qstr {
	const unsigned char *name;
} __attribute__((preserve_access_index));

struct dentry {
	struct qstr d_name;
} __attribute__((preserve_access_index));

struct path {
	struct dentry *dentry;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
} __attribute__((preserve_access_index));

struct fdtable {
	__u32 max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

struct task_struct {
	struct files_struct *files;
} __attribute__((preserve_access_index));

struct eventfd_ctx {
	int id;
} __attribute__((preserve_access_index));

/* What is told; probes.rs reads it. */
enum kind {
	PIPE_WRITE,
	PIPE_READ,
	EVENTFD_WRITE,
	EVENTFD_READ,
	WROTE, /* the task's last write wrote this number of bytes */
};

/* The bytes of a write that are known at its end. */
#define UNKNOWN_BYTES 0xffffffff

struct told {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 channel; /* unique among pipes, and among eventfds */
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u32 kind;
	__u32 bytes;
	__u32 slots; /* of the pipe, a page each; 0: an eventfd */
	char comm[COMM_BYTES];
};

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 1 << 20); /* the loader sets it */
} ring SEC(".maps");

/* How often the ring was full. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void tell(__u32 kind, __u64 channel, __u64 bytes, __u32 slots)
{
	struct told *told = bpf_ringbuf_reserve(&ring, sizeof(*told), 0);
	__u64 ids = bpf_get_current_pid_tgid(), *count;
	__u32 first = 0;

	if (!told) {
		count = bpf_map_lookup_elem(&lost, &first);
		if (count)
			__sync_fetch_and_add(count, 1);
		return;
	}
	told->time_ns = bpf_ktime_get_ns();
	told->channel = channel;
	told->pid = ids >> 32;
	told->tid = ids;
	told->cpu = bpf_get_smp_processor_id();
	told->kind = kind;
	told->bytes = bytes;
	told->slots = slots;
	bpf_get_current_comm(told->comm, sizeof(told->comm));
	/* The loader sleeps until half of the ring is full, so that it does not disturb. */
	bpf_ringbuf_submit(told, bpf_ringbuf_query(&ring, RB_AVAIL_DATA) * 2 >
						 bpf_ringbuf_query(&ring, RB_RING_SIZE)
					 ? RB_FORCE_WAKEUP
					 : RB_NO_WAKEUP);
}

/* A pipe or eventfd. */
struct channel {
	__u64 id;
	__u32 slots;
	__u32 is_pipe;
};

/* Returns 1 if the descriptor of the current task is a pipe or eventfd. */
static __always_inline int find(__u64 fd, struct channel *channel)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *fdt = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(fdt, fd), *file = 0;
	struct eventfd_ctx *eventfd;
	const void *name;
	__u64 first = 0;
	struct inode *inode;

	if ((__u32)fd >= BPF_CORE_READ(fdt, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), files + (__u32)fd);
	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFIFO) {
		/* The number of a named pipe is unique in its file system alone. */
		channel->id = (__u64)BPF_CORE_READ(inode, i_sb, s_dev) << 40 ^
			      BPF_CORE_READ(inode, i_ino);
		channel->slots = BPF_CORE_READ(inode, i_pipe, max_usage);
		channel->is_pipe = 1;
		return 1;
	}
	if (BPF_CORE_READ(inode, i_sb, s_magic) != ANON_INODE_FS_MAGIC)
		return 0;
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel(&first, sizeof(first), name);
	if (first != EVENTFD_NAME)
		return 0;
	eventfd = BPF_CORE_READ(file, private_data);
	channel->id = BPF_CORE_READ(eventfd, id);
	channel->slots = 0;
	channel->is_pipe = 0;
	return 1;
}

SEC("raw_tracepoint/sys_enter")
int call_begins(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx->args[0];
	__u64 call = ctx->args[1];
	struct channel channel;

	if (call != NR_WRITE && call != NR_WRITEV)
		return 0;
	if (find(FD(regs), &channel))
		tell(channel.is_pipe ? PIPE_WRITE : EVENTFD_WRITE, channel.id,
		     call == NR_WRITE ? COUNT(regs) : UNKNOWN_BYTES, channel.slots);
	return 0;
}

SEC("raw_tracepoint/sys_exit")
int call_ends(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx->args[0];
	__s64 bytes = ctx->args[1];
	__u64 call = CALL(regs);
	struct channel channel;

	if (call == NR_WRITE ? bytes != COUNT(regs) : call == NR_WRITEV) {
		if (find(FD(regs), &channel))
			tell(WROTE, channel.id, bytes < 0 ? 0 : bytes, channel.slots);
	} else if ((call == NR_READ || call == NR_READV) && bytes > 0) {
		if (find(FD(regs), &channel))
			tell(channel.is_pipe ? PIPE_READ : EVENTFD_READ, channel.id, bytes,
			     channel.slots);
	}
	return 0;
}
