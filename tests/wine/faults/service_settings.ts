/** Wine's own: its ChangeServiceConfig2W refuses the restart after an error (4) and an identity of a service (5): 0. */
const { symbols: all } = Deno.dlopen("advapi32.dll", {
  OpenSCManagerW: { parameters: ["pointer", "pointer", "u32"], result: "pointer" },
  OpenServiceW: { parameters: ["pointer", "buffer", "u32"], result: "pointer" },
  ChangeServiceConfig2W: { parameters: ["pointer", "u32", "buffer"], result: "i32" },
});
const name = new Uint8Array(Uint16Array.from("EventLog\0", (unit) => unit.charCodeAt(0)).buffer);
const service = all.OpenServiceW(all.OpenSCManagerW(null, null, 0xf003f), name, 0xf01ff);
const taken = [4, 5].map((level) =>
  all.ChangeServiceConfig2W(service, level, new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]))
);
Deno.stdout.writeSync(new TextEncoder().encode(`${service !== null} ${taken.join(" ")}\n`));
