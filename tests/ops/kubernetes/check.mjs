// Checks objects of Kubernetes against its published API: node check.mjs <objects.json, an array of objects.
//
// Prints a complaint a line and exits with 1 where there are any. Two judges, both made of Kubernetes' OpenAPI description: the
// validators of kubernetes-models find values of a wrong type and fields that are missing, and TypeScript with its types finds fields
// that there are not, such as `livenesProbe`, which an API server would drop in silence. No network is used.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = path.dirname(fileURLToPath(import.meta.url));
const objects = JSON.parse(fs.readFileSync(0, "utf8"));
const complaints = [];

// "apps/v1" and "v1" -> where the package has the kind.
const group_of = (object) => {
  const [group, version] = object.apiVersion.includes("/") ? object.apiVersion.split("/") : ["", object.apiVersion];
  const folders = fs.readdirSync(path.join(here, "node_modules/kubernetes-models"));
  const folder = group === "" ? version : folders.find((name) => name === group || name === `${group}.k8s.io`);
  return group === "" ? `kubernetes-models/${version}` : `kubernetes-models/${folder}/${version}`;
};
const name_of = (object) => `${object.kind} ${object.metadata?.name}`;

for (const object of objects) {
  let models;
  try {
    models = await import(group_of(object));
  } catch {
    complaints.push(`${name_of(object)}: Kubernetes' API has no ${object.apiVersion}`);
    continue;
  }
  const Model = models[object.kind];
  if (!Model) {
    complaints.push(`${name_of(object)}: ${object.apiVersion} has no such kind`);
    continue;
  }
  try {
    new Model(object).validate();
  } catch (error) {
    complaints.push(`${name_of(object)}: ${error.message}`);
  }
}

// One source with every object as a literal: for literals TypeScript looks for excess fields at every depth.
const lines = objects.map((object, i) => `import type { I${object.kind} as Kind${i} } from "${group_of(object)}";\nexport const object${i}: Kind${i} = ${JSON.stringify(object)};`);
const source = path.join(here, "objects-in-memory.ts");
const options = { noEmit: true, strict: true, skipLibCheck: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };
const host = ts.createCompilerHost(options);
const read = host.getSourceFile.bind(host), exists = host.fileExists.bind(host);
host.fileExists = (file) => file === source || exists(file);
host.getSourceFile = (file, ...rest) => (file === source ? ts.createSourceFile(file, lines.join("\n"), ts.ScriptTarget.ESNext) : read(file, ...rest));
const program = ts.createProgram([source], options, host);
for (const found of ts.getPreEmitDiagnostics(program)) {
  const line = found.file === undefined ? 0 : found.file.getLineAndCharacterOfPosition(found.start).line;
  const object = objects[Math.floor(line / 2)];
  complaints.push(`${object === undefined ? "" : name_of(object) + ": "}${ts.flattenDiagnosticMessageText(found.messageText, " ")}`);
}

for (const complaint of complaints) console.log(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
