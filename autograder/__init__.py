"""The autograder: scores untrusted notebooks. For instructors; it is not part of a student's bundle.

intake.py reads notebooks as data; sandbox.py raises the walls; worker.py runs inside them; student.py is the
parent's handle on it; exN/ holds the checks; grade.py runs them; report.py writes what came out. course.py,
release.py and bundle.py are the way to the students, nbgrader_side.py is the second opinion.
"""
