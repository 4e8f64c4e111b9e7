#!/usr/bin/python3
"""The manifests of ops/deploy/kubernetes: of Kubernetes' published API, one agreeing with the other, and with the programs; kubectl accepts
them, if it is installed here."""
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command_flags import BIN, ROOT, complaint  # noqa: E402  (needs the path above)
from test_deploy import path, read, run  # noqa: E402

TOKEN_CHARACTERS_MIN = 16  # rendezvous/data_dir/bearer_token.cpp
STOP_S_MIN = 60  # for a worker to finish its step


def merged(thing, patch):
    """A strategic merge, as kustomize does it of lists whose elements have names."""
    if isinstance(thing, dict) and isinstance(patch, dict):
        return {key: merged(thing[key], patch[key]) if key in thing and key in patch else patch.get(key, thing.get(key))
                for key in {**thing, **patch}}
    if isinstance(thing, list) and isinstance(patch, list) and all(isinstance(one, dict) and "name" in one for one in thing + patch):
        changes = {one["name"]: one for one in patch}
        return [merged(one, changes.pop(one["name"], {})) for one in thing] + list(changes.values())
    return patch


def overlaid(objects, overlay):
    """The objects of base/ with an overlay's patches and its own."""
    kustomization = yaml.safe_load(read("kubernetes", overlay, "kustomization.yaml"))
    result = dict(objects)
    for name in kustomization["resources"]:
        for thing in yaml.safe_load_all(read("kubernetes", overlay, name)) if name.endswith(".yaml") else ():
            result[thing["kind"], thing["metadata"]["name"]] = thing
    for patch in kustomization["patches"]:
        which = patch["target"]["kind"], patch["target"]["name"]
        result[which] = merged(result[which], yaml.safe_load(patch["patch"]))
    return result


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.objects = {}
        kustomization = yaml.safe_load(read("kubernetes", "base", "kustomization.yaml"))
        for name in kustomization["resources"]:
            for thing in yaml.safe_load_all(read("kubernetes", "base", name)):
                self.objects[thing["kind"], thing["metadata"]["name"]] = thing
        self.images = {image["name"] for image in kustomization["images"]}
        self.secret = self.objects["Secret", "holdfast-tokens"]["stringData"]

    def of_kind(self, kind):
        return [thing for (k, _), thing in self.objects.items() if k == kind]

    def templates(self):
        return {thing["metadata"]["name"]: thing["spec"]["template"] for thing in self.of_kind("StatefulSet")}

    def containers(self):
        return [(name, template["spec"], container) for name, template in self.templates().items()
                for container in template["spec"]["containers"]]

    def selected(self, selector):
        return [t for t in self.templates().values() if selector.items() <= t["metadata"]["labels"].items()]

    def test_selectors_meet_the_labels_of_their_pods_alone(self):
        for thing in self.of_kind("StatefulSet"):
            selector = thing["spec"]["selector"]["matchLabels"]
            self.assertEqual([thing["spec"]["template"]], self.selected(selector), thing["metadata"]["name"])
            self.assertIn(("Service", thing["spec"]["serviceName"]), self.objects)
            for spread in thing["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
                self.assertEqual([thing["spec"]["template"]], self.selected(spread["labelSelector"]["matchLabels"]))
        for thing in self.of_kind("Service"):
            self.assertEqual(1, len(self.selected(thing["spec"]["selector"])), thing["metadata"]["name"])
        for thing in self.of_kind("PodDisruptionBudget"):
            self.assertEqual(1, len(self.selected(thing["spec"]["selector"]["matchLabels"])))

    def test_ports_agree_from_the_program_to_the_service_to_the_workers(self):
        service, pod = self.objects["Service", "holdfast"], self.templates()["holdfast"]["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
        listen = pod["args"][pod["args"].index("--listen") + 1]
        self.assertEqual(f"0.0.0.0:{ports['http']}", listen)
        outside = service["spec"]["ports"][0]
        self.assertIn(outside["targetPort"], ports)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertIn(pod[probe]["httpGet"]["port"], ports)
        self.assertEqual("/readyz", pod["readinessProbe"]["httpGet"]["path"])
        worker = self.templates()["holdfast-worker"]["spec"]["containers"][0]
        url = worker["args"][worker["args"].index("--server") + 1]
        self.assertEqual(f"http://{service['metadata']['name']}:{outside['port']}", url)

    def test_what_is_mounted_is_there(self):
        for name, spec, container in self.containers():
            claims = {c["metadata"]["name"] for c in self.objects["StatefulSet", name]["spec"].get("volumeClaimTemplates", ())}
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes.keys() | claims, name)
                if "secret" in volumes.get(mount["name"], {}):
                    self.assertEqual("holdfast-tokens", volumes[mount["name"]]["secret"]["secretName"])
                    self.assertIn(mount["subPath"], self.secret)
            for volume in volumes.values():
                if "persistentVolumeClaim" in volume:
                    self.assertIn(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]), self.objects)
            for variable in container.get("env", ()):
                if "valueFrom" not in variable:
                    continue
                reference = variable["valueFrom"].get("secretKeyRef")
                if reference:
                    self.assertEqual("holdfast-tokens", reference["name"])
                    self.assertIn(reference["key"], self.secret)
                field = variable["valueFrom"].get("resourceFieldRef")
                if field:
                    what, _, resource = field["resource"].partition(".")
                    self.assertIn(resource, container["resources"][what])
        mounts = {m["mountPath"] for m in self.templates()["holdfast"]["spec"]["containers"][0]["volumeMounts"]}
        args = self.templates()["holdfast"]["spec"]["containers"][0]["args"]
        data_dir = args[args.index("--data_dir") + 1]
        self.assertLessEqual({data_dir, f"{data_dir}/admin.token", f"{data_dir}/worker.token"}, mounts)

    def test_every_object_is_one_of_kubernetes_published_api(self):
        """Also with the overlays' patches: base/ is what they change."""
        tool = os.path.join(ROOT, "tests", "ops", "kubernetes")
        if not os.path.exists(os.path.join(tool, "node_modules", "installed-lock.json")):
            self.skipTest("Kubernetes' API is not here: ops/setup --clusters installs it")

        def complaints(objects):
            return run("node", os.path.join(tool, "check.mjs"), input=json.dumps(objects)).stdout

        everything = [*self.objects.values(), *overlaid(self.objects, "gpu").values(), *overlaid(self.objects, "replicas").values()]
        self.assertGreaterEqual(len(everything), 20)
        self.assertEqual("", complaints(everything))
        wrong = json.loads(json.dumps(self.objects["StatefulSet", "holdfast"]))
        wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        wrong["spec"]["replicas"] = "three"
        self.assertRegex(complaints([wrong]), "(?s)must be integer.*livenesProbe.* does not exist")

    def test_of_several_services_the_object_in_front_sends_requests_to_those_that_are_ready(self):
        objects = overlaid(self.objects, "replicas")
        services, front, each = objects["StatefulSet", "holdfast"], objects["Service", "holdfast"], objects["Service", "holdfast-services"]
        template = services["spec"]["template"]
        self.assertGreaterEqual(services["spec"]["replicas"], 2)
        self.assertEqual(1, self.objects["StatefulSet", "holdfast"]["spec"]["replicas"], "one stays the default")
        self.assertEqual("Parallel", services["spec"]["podManagementPolicy"], "a standby is never ready: nobody may wait for it")
        for service in (front, each):
            self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())
        self.assertNotIn("publishNotReadyAddresses", front["spec"])
        self.assertEqual(("None", True), (each["spec"]["clusterIP"], each["spec"]["publishNotReadyAddresses"]))
        self.assertEqual(each["metadata"]["name"], services["spec"]["serviceName"])
        (pod,) = template["spec"]["containers"]
        self.assertEqual("/readyz", pod["readinessProbe"]["httpGet"]["path"])
        self.assertEqual("/healthz", pod["livenessProbe"]["httpGet"]["path"], "a standby is well")
        known = {variable["name"] for variable in pod["env"]}
        self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", " ".join(pod["args"]))), known)
        self.assertIn(f"http://$(POD_NAME).{each['metadata']['name']}:7070", pod["args"])
        volumes = {v["name"] for v in template["spec"]["volumes"]} | {c["metadata"]["name"] for c in services["spec"]["volumeClaimTemplates"]}
        self.assertLessEqual({mount["name"] for mount in pod["volumeMounts"]}, volumes)
        if "--store" not in run(os.path.join(BIN, "holdfast"), "serve", "--help").stdout:
            self.skipTest("this `holdfast serve` has no --store: the overlay is for one that has")
        self.assertIsNone(complaint(["holdfast", *(word.replace("$(DATABASE_URL)", "postgresql://holdfast@postgres/holdfast") for word in pod["args"])]))

    def test_the_tokens_in_the_file_let_nobody_in(self):
        for value in self.secret.values():
            self.assertLess(len(value), TOKEN_CHARACTERS_MIN, "the service refuses it until it is changed")

    def test_the_programs_take_these_arguments(self):
        for _, _, container in self.containers():
            command = container.get("command", ["holdfast"]) + container["args"]
            self.assertIsNone(complaint(command))
            self.assertIn(container["image"], self.images)

    def test_pods_run_as_the_images_user_and_have_time_to_end(self):
        user = int(re.search(r"^USER (\d+)", read("container", "Containerfile"), re.MULTILINE).group(1))
        for name, spec, container in self.containers():
            self.assertEqual((True, user), (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]), name)
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            # With service links, a Service named holdfast would set HOLDFAST_PORT and the like in each pod.
            self.assertIs(False, spec["enableServiceLinks"])
            self.assertIn("resources", container)
        self.assertGreaterEqual(self.templates()["holdfast-worker"]["spec"]["terminationGracePeriodSeconds"], STOP_S_MIN)

    def test_the_patch_for_gpus_is_for_an_object_that_is_there(self):
        for patch in yaml.safe_load(read("kubernetes", "gpu", "kustomization.yaml"))["patches"]:
            target, content = patch["target"], yaml.safe_load(patch["patch"])
            template = self.objects[target["kind"], target["name"]]["spec"]["template"]
            named = {c["name"] for c in template["spec"]["containers"]}
            for container in content["spec"]["template"]["spec"]["containers"]:
                self.assertIn(container["name"], named)

    def test_the_image_for_gpus_is_the_workers_whatever_the_base_calls_its_own(self):
        overlay = yaml.safe_load(read("kubernetes", "gpu", "kustomization.yaml"))
        self.assertNotIn("images", overlay, "they would be looked for under the name that base/ gives")
        patched = yaml.safe_load(overlay["patches"][0]["patch"])["spec"]["template"]["spec"]["containers"][0]["image"]
        self.assertRegex(patched, r":.+$")
        if not shutil.which("kubectl"):
            self.skipTest("there is no kubectl on this machine")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(path("kubernetes"), folder, dirs_exist_ok=True)
            base = os.path.join(folder, "base", "kustomization.yaml")
            with open(base, encoding="utf-8") as file:
                text = file.read()
            self.assertIn("newName: holdfast\n", text)
            with open(base, "w", encoding="utf-8") as file:
                file.write(text.replace("newName: holdfast\n", "newName: registry.example/holdfast\n"))
            done = run("kubectl", "kustomize", os.path.join(folder, "gpu"))
            self.assertEqual(0, done.returncode, done.stderr)
            images = {thing["metadata"]["name"]: thing["spec"]["template"]["spec"]["containers"][0]["image"]
                      for thing in yaml.safe_load_all(done.stdout) if thing["kind"] == "StatefulSet"}
        self.assertEqual(patched, images["holdfast-worker"])
        self.assertTrue(images["holdfast"].startswith("registry.example/holdfast:"), images)

    def test_kubectl_puts_them_together(self):
        if not shutil.which("kubectl"):
            self.skipTest("there is no kubectl on this machine")
        for folder in ("kubernetes/base", "kubernetes/gpu"):
            done = run("kubectl", "kustomize", path(folder))
            self.assertEqual(0, done.returncode, done.stderr)
            things = list(yaml.safe_load_all(done.stdout))
            self.assertEqual(len(self.objects), len(things))
            self.assertEqual({"holdfast"}, {thing["metadata"]["namespace"] for thing in things})
            worker = next(t for t in things if t["kind"] == "StatefulSet" and t["metadata"]["name"] == "holdfast-worker")
            limits = worker["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
            self.assertEqual(folder.endswith("gpu"), "amd.com/gpu" in limits)
            self.assertIn("memory", limits, "the patch adds and replaces nothing")
            self.assertRegex(worker["spec"]["template"]["spec"]["containers"][0]["image"], r":.+$")


if __name__ == "__main__":
    unittest.main()
