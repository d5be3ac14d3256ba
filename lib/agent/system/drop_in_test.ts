import { assert, assertEquals } from "@std/assert";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { ServiceFile } from "./drop_in.ts";

const PATH = "/etc/service.conf";
const TEXTS = ["old", "new", undefined] as const;

/** A service that has read its file at its start, and reads it again when an agent says so. */
class Service {
  text: string | undefined;

  constructor(public files: FakeFiles) {
    this.read();
  }

  read(): void {
    this.text = this.files.paths.includes(PATH) ? this.files.text(PATH) : undefined;
  }
}

/** A pass of an agent that wants this text. */
async function pass(service: Service, text: string | undefined): Promise<void> {
  const file = new ServiceFile(service.files, PATH);
  if (!await file.write(text)) return;
  service.read();
  await file.noteRead();
}

/** All pairs of a present text and a wanted one. */
const CHANGES = TEXTS.flatMap((before) => TEXTS.map((wanted) => [before, wanted] as const));

for (const kind of ["kill", "cut", "full"] as const) {
  Deno.test(`a service works with its file, whatever befalls the agent that writes it: ${kind}`, async () => {
    let failures = 0;
    for (const [before, wanted] of CHANGES) {
      for (let at = 0, failed = true; failed; at++) {
        const service = new Service(new FakeFiles());
        await pass(service, before);
        const start = service.files.operations;
        let isHit = false;
        service.files.fault = (operation) => {
          isHit ||= operation === start + at;
          return operation === start + at ? { kind } : undefined;
        };
        await pass(service, wanted).catch(() => {});
        failed = isHit;
        if (isHit) failures++;
        if (kind === "cut" && isHit) {
          service.files.cut();
          service.read();
        }
        service.files = service.files.restart();
        await pass(service, wanted);
        // What a killed process has begun to write has another ending.
        const paths = service.files.paths.filter((path) => !path.endsWith(".tmp"));
        const found = [service.text, paths];
        assertEquals(found, [wanted, wanted === undefined ? [] : [PATH]], `${before}, ${wanted}, ${at}`);
      }
    }
    assert(failures > CHANGES.length, `${failures} failures`);
  });
}

Deno.test("a service is not disturbed for a file that it has read", async () => {
  const service = new Service(new FakeFiles());
  await pass(service, "old");
  const reads = [];
  for (const text of ["old", "new", "new", undefined, undefined]) {
    const file = new ServiceFile(service.files.restart(), PATH);
    reads.push(await file.write(text));
    await file.noteRead();
  }
  assertEquals(reads, [false, true, false, true, false]);
});

Deno.test("a service reads a file again that became the old one before it was read", async () => {
  const service = new Service(new FakeFiles());
  await pass(service, "old");
  for (const text of ["new", "old"]) {
    assertEquals(await new ServiceFile(service.files, PATH).write(text), true, text);
  }
  assertEquals(await new ServiceFile(service.files, PATH).write("old"), true);
});
