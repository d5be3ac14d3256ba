/** The processor time and the memory of processes, from /proc. */

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
