import { assertEquals, assertStringIncludes } from "@std/assert";
import { fileNameFrom, windowsProblem } from "./names.ts";

Deno.test("fileNameFrom: turns any text into a file name that every system accepts", () => {
  const table: Record<string, string> = {
    "cats-2.0+b_1": "cats-2.0+b_1",
    "": "_",
    ".": "_",
    "..": "_",
    "...hidden": "hidden",
    "end..": "end",
    "../../etc/passwd": "_.._etc_passwd",
    "C:\\Windows": "C__Windows",
    "file:stream": "file_stream",
    "a b\0c\n": "a_b_c_",
    "кот": "___",
    CON: "_CON",
    "nul.txt": "_nul.txt",
    "aux.": "_aux",
    COM1: "_COM1",
    COM10: "COM10",
    console: "console",
    "-rf": "-rf",
  };
  for (const [text, name] of Object.entries(table)) {
    assertEquals(fileNameFrom(text), name, JSON.stringify(text));
    assertEquals(windowsProblem(name), undefined, name);
  }
  assertEquals(fileNameFrom("x".repeat(1000)).length, 200);
});

Deno.test("windowsProblem: reports paths with another meaning on Windows", () => {
  const good = [
    "C:\\ProgramData\\svc\\agent\\cache\\svc-agent-1.0.exe",
    "C:/Users/Ada Lovelace/.viam/x.json",
    "\\\\?\\C:\\deep\\file",
    "\\\\server\\share\\file",
    "..\\up\\.hidden",
    "модуль\\файл",
    "console.txt",
    "COM10",
    "nulled\\conx",
    "relative/file.tar.gz",
  ];
  for (const path of good) assertEquals(windowsProblem(path), undefined, path);
  const bad: Record<string, string> = {
    "C:\\x\\CON": "device",
    "x/nul.tar.gz": "device",
    "x/Aux .txt": "device",
    "x/LPT¹": "device",
    "con/below": "device",
    "x/name.": "ends with",
    "x/folder /file": "ends with",
    "x/name:stream": "not allow",
    "C:\\x\\C:\\y": "not allow",
    "x/what?": "not allow",
    "x/a\u0001": "not allow",
  };
  for (const [path, problem] of Object.entries(bad)) {
    assertStringIncludes(windowsProblem(path) ?? "nothing", problem, path);
  }
});
