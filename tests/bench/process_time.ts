/** The processor time and the memory of processes, and of the computer, from /proc. */

/** The processor time so far of all threads of a process, and of that and what it has started. */
export function cpuMsOf(pid: number): { own: number; all: number } {
  let [own, started] = [0, 0];
  for (const { name: thread } of Deno.readDirSync(`/proc/${pid}/task`)) {
    const of = `/proc/${pid}/task/${thread}`;
    own += Number(Deno.readTextFileSync(`${of}/schedstat`).split(" ")[0]) / 1e6;
    for (const child of Deno.readTextFileSync(`${of}/children`).split(" ").filter(Boolean)) {
      started += cpuMsOf(Number(child)).all;
    }
  }
  return { own, all: own + started };
}

/** The resident memory of a process, and of each process that it has started; those that have just ended are left out. */
export function residentMibOf(pid: number): number[] {
  try {
    const kib = /VmRSS:\s*(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))?.[1] ?? 0;
    const threads = [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) => name);
    const children = threads.flatMap((thread) => {
      return Deno.readTextFileSync(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean);
    });
    return [Number(kib) / 1024, ...children.flatMap((child) => residentMibOf(Number(child)))];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** What all processors of the computer have done since it started, in ticks of the kernel. */
export function processorTicks(): { readonly busy: number; readonly sum: number } {
  const [line = ""] = Deno.readTextFileSync("/proc/stat").split("\n", 1);
  // user nice system idle iowait irq softirq steal
  const ticks = line.split(/ +/).slice(1, 9).map(Number);
  const sum = ticks.reduce((sum, one) => sum + one, 0);
  return { busy: sum - (ticks[3] ?? 0) - (ticks[4] ?? 0), sum };
}
