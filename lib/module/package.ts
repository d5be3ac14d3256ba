/**
 * The entry of the npm package: the library, after the language features that it needs and Node 20 lacks.
 */

import "core-js/actual/array/from-async.js";
import "core-js/actual/iterator/some.js";
import "core-js/actual/map/group-by.js";
import "core-js/actual/promise/try.js";
import "core-js/actual/promise/with-resolvers.js";
import "core-js/actual/typed-array/from-base64.js";

export * from "./mod.ts";
