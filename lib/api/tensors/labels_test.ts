import { assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { classLabelsIn } from "./labels.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const read = (text: string) => classLabelsIn(utf8(text));

function utf16(text: string, isLittle: boolean): Uint8Array {
  const view = new DataView(new ArrayBuffer(2 * text.length));
  for (let at = 0; at < text.length; at++) view.setUint16(2 * at, text.charCodeAt(at), isLittle);
  return new Uint8Array(view.buffer);
}

Deno.test("classLabelsIn: each line names a class, an empty one keeps its place but at the end", () => {
  const cases: [text: string, labels: string[]][] = [
    ["apple\npear", ["apple", "pear"]],
    ["apple\npear\n", ["apple", "pear"]],
    ["\ufeffapple\r\n\r\n pear \r\n\r\n\n", ["apple", "", "pear"]],
    ["apple\rpear\r\rplum\r", ["apple", "pear", "", "plum"]],
    ["[person]\n[car]\n", ["[person]", "[car]"]],
    ["", []],
    ["\n\n", []],
  ];
  for (const [text, labels] of cases) assertEquals(read(text), labels, JSON.stringify(text));
});

Deno.test("classLabelsIn: UTF-16 and a Western code page are read as such", () => {
  const labels = ["Tür", "日本"];
  for (const isLittle of [true, false]) {
    assertEquals(classLabelsIn(utf16("\ufeffTür\r\n日本\r\n", isLittle)), labels);
  }
  assertEquals(classLabelsIn(Uint8Array.of(0x54, 0xfc, 0x72, 0x0a, 0x41)), ["Tür", "A"]);
});

Deno.test("classLabelsIn: JSON names classes by a list, or by numbers", () => {
  assertEquals(read('[\n  "cat",\n  "dog"\n]'), ["cat", "dog"]);
  assertEquals(read('{"0": "cat", "2": " dog"}'), ["cat", "", "dog"]);
  assertEquals(read('{"dog": 1, "cat": 0}'), ["cat", "dog"]);
  assertEquals(read("[]"), []);
  assertEquals(read('{"99999": "last"}').at(99_999), "last");
  assertThrows(() => read('{"100000": "one too many"}'), SvcError, "one too many");
  assertThrows(() => read('["cat", 5, {}]'), SvcError, "it has");
  assertThrows(() => read('{"label": "cat"}'), SvcError, '{"label":"cat"}');
  assertThrows(() => read('["cat", "dog"'), SvcError, "not JSON");
});

Deno.test("classLabelsIn: lines with numbers that leave some out stand at these numbers", () => {
  assertEquals(read("0  person\n1  bicycle\n3  car\n"), ["0  person", "1  bicycle", "", "3  car"]);
  assertEquals(read("0: cat\n2: dog"), ["0: cat", "", "2: dog"]);
  assertEquals(read("0 cat\n1 dog"), ["0 cat", "1 dog"]);
  const others = [["0 fingers", "2 fingers"], ["1 cat", "3 dog"], ["0 cat", "3 dog", "2 cow"], [
    "0 cat",
    "dog",
  ]];
  for (const lines of others) assertEquals(read(lines.join("\n")), lines);
});

Deno.test("classLabelsIn: files of another form are refused", () => {
  for (
    const text of [
      "item {\n  id: 1\n  name: 'cat'\n}\n",
      "train: images\nnc: 2\nnames: ['cat', 'dog']\n",
      "path: x\nnames:\n  0: cat\n",
    ]
  ) assertThrows(() => read(text), SvcError, "wanted a label a line");
  assertEquals(read("names\nitem"), ["names", "item"]);
});
